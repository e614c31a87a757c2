#include "data/variable_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace ddpm::data {
namespace {

constexpr std::string_view kWanted = "\"NAME\" or \"NAME AXIS=NUMBER\" is wanted, such as \"z level=500\"";

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = text.find_first_not_of(' '); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(' ', end);
  }
  return words;
}

VariableRequest::Choice parse_choice(const std::string& word, std::string_view text, std::string_view key) {
  const std::size_t equals = word.find('=');
  VariableRequest::Choice choice{.axis = word.substr(0, equals)};
  const char* end = word.data() + word.size();
  const char* begin = equals == std::string::npos ? end : word.data() + equals + 1;
  const auto [stop, problem] = std::from_chars(begin, end, choice.value);
  if (choice.axis.empty() || begin == end || problem != std::errc() || stop != end || !std::isfinite(choice.value)) {
    throw base::ConfigError("{}: \"{}\": {}", key, text, kWanted);
  }
  return choice;
}

}  // namespace

VariableRequest parse_request(std::string_view text, std::string_view key) {
  const std::vector<std::string> words = words_of(text);
  if (words.empty() || words.front().find('=') != std::string::npos || words.front().back() == '/') {
    throw base::ConfigError("{}: \"{}\": {}", key, text, kWanted);
  }
  VariableRequest request{.name = words.front(), .text = words.front()};
  for (std::size_t w = 1; w < words.size(); ++w) {
    request.choices.push_back(parse_choice(words[w], text, key));
    request.text += " " + words[w];
  }
  return request;
}

std::vector<VariableRequest> parse_requests(std::string_view text, std::string_view key) {
  std::vector<VariableRequest> requests;
  for (bool more = !text.empty(); more;) {
    const std::size_t end = text.find(',');
    requests.push_back(parse_request(text.substr(0, end), key));
    more = end != std::string_view::npos;
    text.remove_prefix(more ? end + 1 : text.size());
  }
  return requests;
}

}  // namespace ddpm::data
