#include "data/prepare/webdataset.h"

#include <charconv>
#include <exception>

#include "base/json.h"
#include "data/prepare/pictures.h"

namespace ddpm::data::prepare {

std::string_view sample_key(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  return name.substr(0, name.find('.', base));
}

std::optional<int64_t> label_of_cls(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return std::nullopt;
  text = text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
  int64_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && label >= 0 && label <= kLargestLabel ? std::optional(label) : std::nullopt;
}

std::optional<int64_t> label_of_json(std::string_view text) {
  try {
    const base::Json json = base::parse_json(text);
    for (const char* key : {"label", "cls"}) {
      if (!json.is_object() || !json.contains(key) || !json.at(key).is_number_integer()) continue;
      const auto label = json.at(key).get<int64_t>();
      if (label >= 0 && label <= kLargestLabel) return label;
    }
  } catch (const std::exception&) {
    return std::nullopt;  // what is no JSON tells no label
  }
  return std::nullopt;
}

std::string shown_name(const std::vector<base::Path>& archives, int64_t archive, std::string_view name) {
  if (archives.size() == 1) return std::string(name);
  return archives[static_cast<std::size_t>(archive)].string() + '/' + std::string(name);
}

}  // namespace ddpm::data::prepare
