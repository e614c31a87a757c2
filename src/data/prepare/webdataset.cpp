#include "data/prepare/webdataset.h"

#include <exception>

#include "base/json.h"
#include "base/parse_number.h"
#include "base/shortened.h"
#include "data/prepare/pictures.h"

namespace ddpm::data::prepare {

std::string_view sample_key(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  return name.substr(0, name.find('.', base));
}

std::optional<int64_t> label_of_cls(std::string_view text) {
  const auto label = base::parse_number<int64_t>(base::trimmed(text, " \t\r\n"));
  return label && *label >= 0 && *label <= kLargestLabel ? label : std::nullopt;
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
