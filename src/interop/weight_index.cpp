#include "interop/weight_index.h"

#include <algorithm>

#include "base/error.h"

namespace ddpm::interop {
namespace {

constexpr const char* kMap = "weight_map";
constexpr std::size_t kMaxNameBytes = 255;

/// A name that leads out of the folder would have us read any file of the user's.
bool is_plain_name(const std::string& file) {
  const bool odd = std::ranges::any_of(file, [](char c) { return c == '/' || static_cast<unsigned char>(c) < ' '; });
  return !odd && !file.starts_with('.') && file.ends_with(".safetensors") && file.size() <= kMaxNameBytes;
}

}  // namespace

WeightIndex parse_weight_index(const base::Json& json, const std::string& origin) {
  if (!json.is_object() || !json.contains(kMap) || !json[kMap].is_object() || json[kMap].empty()) {
    throw base::OutputError("{}: wanted: a JSON object with \"{}\", an object of names of weights and files", origin,
                            kMap);
  }
  WeightIndex index;
  for (const auto& [name, file] : json[kMap].items()) {
    if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
      throw base::OutputError("{}: weight {} lies in {}; wanted: the name of a .safetensors file in this folder",
                              origin, base::excerpt(name), base::excerpt(file));
    }
    index.emplace(name, file.get<std::string>());
  }
  return index;
}

}  // namespace ddpm::interop
