#include "eval/same_rows.h"

#include <map>
#include <utility>

namespace ddpm::eval {
namespace {

using Occurrence = std::pair<RowName, std::size_t>;  // a name, and how many before it are the same

std::vector<Occurrence> occurrences_of(const std::vector<RowName>& list) {
  std::map<RowName, std::size_t> seen;
  std::vector<Occurrence> occurrences;
  occurrences.reserve(list.size());
  for (const RowName& name : list) occurrences.emplace_back(name, seen[name]++);
  return occurrences;
}

}  // namespace

RowName row_name(const Metric& metric) {
  return {.name = metric.name, .variable = metric.variable, .level = metric.level_text()};
}

std::vector<std::vector<std::size_t>> same_rows(std::span<const std::vector<RowName>> lists) {
  std::map<Occurrence, std::vector<std::size_t>> places;
  for (const std::vector<RowName>& list : lists) {
    const std::vector<Occurrence> rows = occurrences_of(list);
    for (std::size_t place = 0; place < rows.size(); ++place) places[rows[place]].push_back(place);
  }
  std::vector<std::vector<std::size_t>> same;
  if (lists.empty()) return same;
  for (const Occurrence& row : occurrences_of(lists.front())) {
    if (places[row].size() == lists.size()) same.push_back(places[row]);
  }
  return same;
}

}  // namespace ddpm::eval
