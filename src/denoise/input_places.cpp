#include "denoise/input_places.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "denoise/model_inputs.h"

namespace ddpm::denoise {
namespace {

using data::FieldRole;
using Names = std::vector<std::string>;

/// The names of the variables of a role. Those of images are unknown, and none, where only the number of their channels
/// is recorded.
Names names_of_role(const ImageRecord& record, FieldRole role) {
  const data::Field* field = field_of(record.fields, role);
  Names names;
  if (field == nullptr && role != FieldRole::image) return names;
  for (const data::Variable& v : field == nullptr ? record.names : field->variables) names.push_back(v.name);
  return names;
}

/// "a, b, c, d, e and 95 more"
std::string listed(const Names& names) {
  constexpr std::size_t kShown = 5;
  const std::size_t shown = std::min(names.size(), kShown);
  const std::string rest = names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "";
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "), rest);
}

InputCounts counts_of(const ImageRecord& record, int64_t image_channels) {
  InputCounts counts = InputCounts::of(record.fields, record.positions);
  if (record.fields.empty()) counts.image = image_channels;
  return counts;
}

/// What the model draws stays where it is, so that the same variables in another order would be taken for each other.
void expect_same_order(const Names& before, const Names& now, const std::string& origin) {
  if (before == now || !std::ranges::is_permutation(before, now)) return;
  throw base::OutputError("{}: its model draws {} in this order, and the set has them in another: {}", origin,
                          fmt::join(before, ", "), fmt::join(now, ", "));
}

/// Appends where the channels `before` of a role stand, of which those of the new model begin at `first`.
void place_role(FieldRole role, const Names& before, const Names& now, int64_t first, const std::string& origin,
                InputPlaces& result) {
  std::vector<bool> taken(now.size());
  std::vector<int64_t> found;
  Names missing;
  for (const std::string& name : before) {
    std::size_t place = 0;
    while (place < now.size() && (taken[place] || now[place] != name)) ++place;
    if (place == now.size()) {
      missing.push_back(name);
      continue;
    }
    taken[place] = true;
    found.push_back(first + static_cast<int64_t>(place));
  }
  if (!missing.empty() && found.empty() && missing.size() == now.size()) {
    for (int64_t place = 0; place < std::ssize(now); ++place) found.push_back(first + place);
    result.renamed.push_back(
        fmt::format("{} {} in place of {}", base::name_of(role), fmt::join(now, ", "), fmt::join(before, ", ")));
  } else if (!missing.empty()) {
    throw base::OutputError(
        "{}: its model is given {} in the role of {}, which the set does not have; wanted: all that it was trained "
        "with, under the same names",
        origin, fmt::join(missing, ", "), base::name_of(role));
  }
  result.places.insert(result.places.end(), found.begin(), found.end());
}

}  // namespace

std::vector<int64_t> same_places(int64_t count) {
  std::vector<int64_t> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), int64_t{0});
  return places;
}

InputPlaces place_inputs(const ImageRecord& before, const ImageRecord& now, int64_t image_channels, int64_t channels,
                         const std::string& origin) {
  const InputCounts counts = counts_of(before, image_channels);
  if (counts.image != image_channels || counts.channels() != channels) {
    throw base::OutputError("{}: its record tells of {}, but its model sees {} and draws {}", origin, counts.text(),
                            base::counted(channels, "channel"), image_channels);
  }
  expect_same_order(names_of_role(before, FieldRole::image), names_of_role(now, FieldRole::image), origin);
  InputPlaces result;
  const auto append = [&result](int64_t first, int64_t count) {
    for (int64_t place = first; place < first + count; ++place) result.places.push_back(place);
  };
  append(0, image_channels);
  int64_t first = image_channels;
  for (const FieldRole role : {FieldRole::condition, FieldRole::static_values}) {
    const Names names = names_of_role(now, role);
    place_role(role, names_of_role(before, role), names, first, origin, result);
    first += std::ssize(names);
  }
  if (before.positions && !now.positions) {
    throw base::OutputError("{}: its model is given positions; wanted: data.positions = true", origin);
  }
  append(first, counts.positions);
  return result;
}

InputPlaces place_parameters(const ImageRecord& before, const ImageRecord& now, int64_t count,
                             const std::string& origin) {
  const Names known = names_of_role(before, FieldRole::parameters);
  if (std::ssize(known) != count) return {.places = same_places(count)};
  InputPlaces result;
  place_role(FieldRole::parameters, known, names_of_role(now, FieldRole::parameters), 0, origin, result);
  return result;
}

InputPlaces place_class_rows(const Names& before, const Names& now, const ClassRows& rows, const std::string& origin) {
  const int64_t null_rows = rows.null_class ? 1 : 0;
  InputPlaces result{.places = same_places(rows.before)};
  if (rows.null_class) result.places.back() = rows.now - 1;
  if (before.empty() || now.empty()) return result;
  std::map<std::string_view, int64_t> by_name;
  for (int64_t place = 0; place < std::ssize(now); ++place)
    by_name.emplace(now[static_cast<std::size_t>(place)], place);
  if (std::ranges::none_of(before, [&](const std::string& name) { return by_name.contains(name); })) {
    result.renamed.push_back(fmt::format("classes {} in place of {}", listed(now), listed(before)));
    return result;
  }
  int64_t spare = std::ssize(now);
  for (int64_t row = 0; row < rows.before - null_rows; ++row) {
    const auto index = static_cast<std::size_t>(row);
    const auto found = index < before.size() ? by_name.extract(before[index]) : decltype(by_name)::node_type{};
    result.places[index] = found.empty() ? spare++ : found.mapped();
  }
  if (spare + null_rows > rows.now) {
    throw base::OutputError(
        "{}: its model has classes that the set does not have, and keeps their rows behind those of the set's; wanted: "
        "model.num_class_embeds = {} at least",
        origin, spare + null_rows);
  }
  return result;
}

Names changed_transforms(const ImageRecord& before, const ImageRecord& now, int64_t image_channels) {
  Names changed;
  const std::vector<data::Transform> earlier = before.transforms(image_channels);
  const std::vector<data::Transform> later = now.transforms(image_channels);
  const Names drawn = names_of_role(now, FieldRole::image);
  for (std::size_t c = 0; before.dtype == now.dtype && c < std::min(earlier.size(), later.size()); ++c) {
    if (earlier[c] == later[c]) continue;
    changed.push_back(c < drawn.size() ? drawn[c] : fmt::format("channel {}", c));
  }
  for (const FieldRole role : {FieldRole::condition, FieldRole::static_values, FieldRole::parameters}) {
    const data::Field* known = field_of(before.fields, role);
    const data::Field* given = field_of(now.fields, role);
    if (known == nullptr || given == nullptr) continue;
    for (const data::Variable& variable : given->variables) {
      const auto same = std::ranges::find(known->variables, variable.name, &data::Variable::name);
      if (same != known->variables.end() && same->transform != variable.transform) changed.push_back(variable.name);
    }
  }
  return changed;
}

}  // namespace ddpm::denoise
