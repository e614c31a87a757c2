#include "data/variable_request.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/parse_number.h"
#include "base/shortened.h"
#include "data/field.h"
#include "data/plain_text.h"

namespace ddpm::data {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;
constexpr char kQuote = '\'';

[[noreturn]] void refuse(std::string_view text, std::string_view key) {
  throw base::ConfigError(
      "{}: \"{}\": \"NAME\" or \"NAME AXIS=NUMBER\" is wanted, such as \"z level=500\"; names with spaces, commas or = "
      "stand in single quotes, such as \"'total cloud' level=500\"",
      key, text);
}

struct Word {
  std::string_view written;
  std::string text;               // without the quotes around its first part
  std::size_t equals = kNowhere;  // where = stands in it outside of quotes
};

std::vector<Word> words_of(std::string_view text, std::string_view key) {
  std::vector<Word> words;
  for (std::size_t at = text.find_first_not_of(' '); at != kNowhere; at = text.find_first_not_of(' ', at)) {
    const std::size_t begin = at;
    Word word;
    if (text[at] == kQuote) {
      const std::size_t close = text.find(kQuote, at + 1);
      if (close == kNowhere) refuse(text, key);
      word.text = text.substr(at + 1, close - at - 1);
      at = close + 1;
    }
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view rest = text.substr(at, end - at);
    if (const std::size_t equals = rest.find('='); equals != kNowhere) word.equals = word.text.size() + equals;
    word.text += rest;
    word.written = text.substr(begin, end - begin);
    words.push_back(std::move(word));
    at = end;
  }
  return words;
}

VariableRequest::Choice parse_choice(const Word& word, std::string_view text, std::string_view key) {
  if (word.equals == kNowhere) refuse(text, key);
  const auto value = base::parse_number<double>(std::string_view(word.text).substr(word.equals + 1));
  if (word.equals == 0 || !value || !std::isfinite(*value)) refuse(text, key);
  return {.axis = word.text.substr(0, word.equals), .value = *value};
}

}  // namespace

VariableRequest parse_request(std::string_view text, std::string_view key) {
  if (!is_plain(text)) {
    std::string shown = base::shortened(std::string(text), base::kLongestShownName);
    std::ranges::replace(shown, '\0', '?');  // at which a message would end
    throw base::ConfigError("{}: \"{}\" has {} bytes; 1 to {} printable ones of UTF-8 are wanted", key, shown,
                            text.size(), kMaxNameBytes);
  }
  const std::vector<Word> words = words_of(text, key);
  if (words.empty() || words.front().equals != kNowhere) refuse(text, key);
  const std::string& name = words.front().text;
  if (name.empty() || name.back() == '/') refuse(text, key);
  VariableRequest request{.name = name, .text = std::string(words.front().written)};
  for (std::size_t w = 1; w < words.size(); ++w) {
    request.choices.push_back(parse_choice(words[w], text, key));
    request.text += fmt::format(" {}", words[w].written);
  }
  return request;
}

std::size_t end_of_item(std::string_view text) {
  bool begins_word = true;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ',') return at;
    if (begins_word && text[at] == kQuote) at = std::min(text.find(kQuote, at + 1), text.size() - 1);
    begins_word = text[at] == ' ';
  }
  return text.size();
}

std::vector<VariableRequest> parse_requests(std::string_view text, std::string_view key) {
  std::vector<VariableRequest> requests;
  for (bool more = !text.empty(); more;) {
    const std::size_t end = end_of_item(text);
    requests.push_back(parse_request(text.substr(0, end), key));
    more = end < text.size();
    text.remove_prefix(more ? end + 1 : text.size());
  }
  return requests;
}

}  // namespace ddpm::data
