#include "cli/class_counts.h"

#include <vector>

namespace ddpm::cli {

std::map<int64_t, int64_t> class_counts(const data::Dataset& dataset) {
  std::map<int64_t, int64_t> counts;
  for (int64_t id = 0; id < std::ssize(dataset.info().class_names); ++id) counts[id] = 0;
  for (const int64_t label : dataset.labels()) ++counts[label];
  return counts;
}

std::string class_name(const data::DatasetInfo& info, int64_t id) {
  const std::vector<std::string>& names = info.class_names;
  return id < std::ssize(names) ? names[static_cast<std::size_t>(id)] : std::to_string(id);
}

}  // namespace ddpm::cli
