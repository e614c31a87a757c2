#include "data/foreign_variable.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/shortened.h"
#include "data/plain_text.h"

namespace ddpm::data {
namespace {

using base::DatasetError;

constexpr std::size_t kMostNamed = 12;  // in a message
constexpr int64_t kMostCoordinates = int64_t{1} << 24;
constexpr std::array<const char*, 3> kWellGroups = {"/t0_fields", "/t1_fields", "/t2_fields"};
constexpr const char* kDimensionOnly = "This is a netCDF dimension but not a netCDF variable";

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::vector<std::string> texts_of(const h5::File& file, const std::string& object, const std::string& name) {
  const auto found = file.find_attribute(object, name);
  return found ? found->texts : std::vector<std::string>();
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

/// What the root of the file, or each group of The Well's fields, holds.
std::string names_at_hand(const ForeignFile& from) {
  std::vector<std::string> names;
  if (!from.is_well()) names = from.file.names_in("/");
  for (const char* group : kWellGroups) {
    if (from.is_well()) std::ranges::copy(from.file.names_in(group), std::back_inserter(names));
  }
  return some_of(std::move(names));
}

/// Where the array of this name lies; nothing where there is none.
std::optional<std::string> find_path(const ForeignFile& from, const std::string& name) {
  std::vector<std::string> places = {name.front() == '/' ? name : "/" + name};
  if (from.is_well() && name.front() != '/') {
    places.clear();
    for (const char* group : kWellGroups) places.push_back(std::string(group) + "/" + name);
    places.push_back("/scalars/" + name);
  }
  for (const std::string& place : places) {
    if (from.file.contains(place)) return place;
  }
  return std::nullopt;
}

std::string path_of(const ForeignFile& from, const std::string& name) {
  if (auto path = find_path(from, name)) return *std::move(path);
  throw DatasetError("{}: there is no variable {}; wanted: one of {}", from.file.path().string(),
                     base::shortened(name, base::kLongestShownName), names_at_hand(from));
}

/// Whether a scale is a dimension alone, whose values mean nothing.
bool has_coordinates(const h5::File& file, const std::string& scale) {
  const std::vector<std::string> name = texts_of(file, scale, "NAME");
  return name.empty() || !name.front().starts_with(kDimensionOnly);
}

std::vector<ForeignAxis> named_axes(const h5::File& file, const h5::Array& array, const std::string& path) {
  std::vector<h5::DimensionScale> scales = array.scales();
  const bool is_scale = scales.size() == 1 && scales.front().name.empty() &&
                        texts_of(file, path, "CLASS") == std::vector<std::string>{"DIMENSION_SCALE"};
  if (is_scale) scales.front() = {.name = path, .extent = array.rows()};
  const auto labels = array.find_attribute("DIMENSION_LABELS");
  std::vector<ForeignAxis> axes;
  for (std::size_t a = 0; a < scales.size(); ++a) {
    const std::string& scale = scales[a].name;
    ForeignAxis axis{.name = last_part(scale), .coordinates = "", .extent = array.shape()[a]};
    // A variable that was written less often than others of its unlimited dimension is stored with fewer places.
    if (a == 0 && array.has_fill()) axis.extent = std::max(axis.extent, scales[a].extent);
    if (!scale.empty() && has_coordinates(file, scale)) axis.coordinates = scale;
    if (axis.name.empty() && labels && labels->texts.size() == scales.size()) axis.name = labels->texts[a];
    if (axis.name.empty()) axis.name = std::to_string(a);
    axes.push_back(std::move(axis));
  }
  return axes;
}

bool is_true(const h5::Array& array, const char* name) {
  const auto found = array.find_attribute(name);
  if (!found || found->numbers.size() != 1) {
    throw DatasetError("{}@{}: true or false is wanted, as The Well's fields have it", array.label(), name);
  }
  return found->numbers.front() != 0.0;
}

std::vector<ForeignAxis> well_axes(const ForeignFile& from, const h5::Array& array) {
  std::vector<std::string> names;
  if (is_true(array, "sample_varying")) names.emplace_back(kTrajectory);
  if (is_true(array, "time_varying")) names.emplace_back(kTime);
  const auto varying = array.find_attribute("dim_varying");
  for (std::size_t d = 0; varying && d < from.space.size(); ++d) {
    if (varying->numbers.size() != from.space.size()) {
      throw DatasetError("{}@dim_varying: {} values for the axes {}", array.label(), varying->numbers.size(),
                         fmt::join(from.space, ", "));
    }
    if (varying->numbers[d] != 0.0) names.push_back(from.space[d]);
  }
  if (names.size() > array.shape().size()) {
    throw DatasetError("{}: it has {} axes; its attributes tell of {}", array.label(), array.shape().size(),
                       fmt::join(names, ", "));
  }
  std::vector<ForeignAxis> axes;
  for (std::size_t a = 0; a < array.shape().size(); ++a) {
    ForeignAxis axis{.name = a < names.size() ? names[a] : kComponent, .coordinates = "", .extent = array.shape()[a]};
    const std::string scale = "/dimensions/" + axis.name;
    if (axis.name != kTrajectory && axis.name != kComponent && from.file.contains(scale)) axis.coordinates = scale;
    axes.push_back(std::move(axis));
  }
  return axes;
}

void expect_different(const std::vector<ForeignAxis>& axes, const std::string& label) {
  std::set<std::string> seen;
  for (const ForeignAxis& axis : axes) {
    if (axis.name == kComponent || seen.insert(axis.name).second) continue;
    throw DatasetError("{}: two of its axes are called {}; different names are wanted", label, axis.name);
  }
}

}  // namespace

std::string some_of(std::vector<std::string> names) {
  if (names.empty()) return "nothing";
  const std::size_t more = names.size() - std::min(names.size(), kMostNamed);
  names.resize(names.size() - more);
  for (std::string& name : names) name = base::shortened(std::move(name), base::kLongestShownName);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

ForeignFile ForeignFile::of(const h5::File& file) {
  ForeignFile found{.file = file, .is_netcdf = file.find_attribute("/", "_NCProperties").has_value(), .space = {}};
  const bool has_fields = std::ranges::any_of(kWellGroups, [&](const char* group) { return file.contains(group); });
  if (has_fields) found.space = texts_of(file, "/dimensions", "spatial_dims");
  return found;
}

ForeignVariable ForeignFile::open(const std::string& name) const {
  const std::string path = path_of(*this, name);
  h5::Array array = file.array(path);
  if (array.row_bytes() == 0 || array.rows() == 0) throw DatasetError("{}: it holds nothing", array.label());
  const bool is_field =
      std::ranges::any_of(kWellGroups, [&](const char* group) { return path.starts_with(std::string(group) + "/"); });
  const bool by_attributes = is_well() && (is_field || path.starts_with("/scalars/"));
  std::vector<ForeignAxis> axes = by_attributes ? well_axes(*this, array) : named_axes(file, array, path);
  expect_different(axes, array.label());
  Decoding decoding = Decoding::of(array, is_netcdf);
  const auto units = array.find_attribute("units");
  return {.array = std::move(array),
          .axes = std::move(axes),
          .decoding = std::move(decoding),
          .unit = units && units->texts.size() == 1 ? plain_unit(units->texts.front()) : ""};
}

bool ForeignFile::has(const std::string& name) const { return find_path(*this, name).has_value(); }

std::vector<double> ForeignFile::coordinates(const ForeignAxis& axis) const {
  if (axis.coordinates.empty()) return {};
  const h5::Array array = file.array(axis.coordinates);
  const bool is_list = array.shape() == std::vector{axis.extent} && axis.extent <= kMostCoordinates;
  if (!is_list || array.element() == h5::Element::other || axis.extent == 0) return {};
  std::vector<std::byte> stored(static_cast<std::size_t>(axis.extent) * array.row_bytes());
  bool read = false;
  file.alone([&] {
    array.read_rows(0, axis.extent, stored);
    read = true;
  });
  std::vector<double> places = read ? numbers_of(stored, array.element()) : std::vector<double>();
  const auto number = [&](const char* name, double usual) {
    const std::optional<h5::Attribute> found = array.find_attribute(name);
    return found && found->numbers.size() == 1 ? found->numbers.front() : usual;
  };
  const double scale = number("scale_factor", 1.0);
  const double offset = number("add_offset", 0.0);
  for (double& place : places) place = place * scale + offset;
  return places;
}

std::string ForeignFile::unit_of(const ForeignAxis& axis) const {
  const std::vector<std::string> units =
      axis.coordinates.empty() ? std::vector<std::string>() : texts_of(file, axis.coordinates, "units");
  return units.size() == 1 ? units.front() : "";
}

int64_t ForeignFile::place(const ForeignAxis& axis, const VariableRequest::Choice& choice,
                           const std::string& label) const {
  std::vector<double> known = coordinates(axis);
  if (known.empty()) {
    for (int64_t i = 0; i < axis.extent; ++i) known.push_back(static_cast<double>(i));
  }
  const auto found = std::ranges::find_if(known, [&](double value) {
    return value == choice.value || static_cast<float>(value) == static_cast<float>(choice.value);
  });
  if (found != known.end()) return found - known.begin();
  file.alone([&] {
    throw DatasetError("{}: {}={} is not among its {} places, from {} to {}", label, axis.name, choice.value,
                       known.size(), known.front(), known.back());
  });
  return 0;  // what was kept explains why the place is not there
}

std::vector<std::string> ForeignFile::periodic_axes() const {
  std::set<std::string> periodic;
  std::set<std::string> others;
  for (const std::string& name : file.names_in("/boundary_conditions")) {
    const std::string group = "/boundary_conditions/" + name;
    const std::vector<std::string> type = texts_of(file, group, "bc_type");
    const bool goes_around = type.size() == 1 && upper(type.front()) == "PERIODIC";
    for (const std::string& axis : texts_of(file, group, "associated_dims")) {
      (goes_around ? periodic : others).insert(axis);
    }
  }
  std::vector<std::string> axes;
  std::ranges::set_difference(periodic, others, std::back_inserter(axes));
  return axes;
}

}  // namespace ddpm::data
