#include "data/field.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"
#include "base/named.h"

namespace ddpm::data {
namespace {

using base::DatasetError;
using base::DType;

// A limit that no real set reaches; it keeps every product far from overflow.
constexpr int64_t kMaxElements = int64_t{1} << 31;

/// What the values of a role must be.
struct RoleRule {
  std::string_view name;  ///< in messages
  std::size_t axes;       ///< axes that one image's values have; the last is that of the variables, if there are any
  bool may_be_deep;       ///< whether volumes have one axis more
  std::vector<DType> dtypes;
  std::vector<bool> per_set;  ///< what may be
  std::string_view wanted;
};

RoleRule rule_of(FieldRole role) {
  constexpr std::string_view kImage =
      "[height, width, channels], or [depth, height, width, channels], of uint8 or float32 with one variable for "
      "each channel";
  const std::vector<DType> values = {DType::u8, DType::f32};
  switch (role) {
    case FieldRole::image:
      return {"images", 3, true, values, {false}, kImage};
    case FieldRole::labels:
      return {"labels", 0, false, {DType::i64}, {false}, "[] of int64 with 0 variables"};
    case FieldRole::condition:
      return {"conditions", 3, true, values, {false}, kImage};
    case FieldRole::static_values:
      return {"static values", 3, true, values, {true}, "once per set, as an image: [height, width, channels]"};
    case FieldRole::parameters:
      return {"parameters", 1,       false,
              {DType::f32}, {false}, "[parameters] of float32 with one variable for each parameter"};
    case FieldRole::mask:
      return {"masks", 2, true, {DType::u8}, {false, true}, "[height, width] of uint8 with 0 variables"};
  }
  throw base::InternalError("field role {}", static_cast<int>(role));
}

bool has_axes(const Field& field, const RoleRule& rule) {
  return field.shape.size() == rule.axes || (rule.may_be_deep && field.shape.size() == rule.axes + 1);
}

std::string described(const Field& field) {
  return fmt::format("[{}] of {} with {} variables{}", fmt::join(field.shape, ", "), numpy_name(field.dtype),
                     field.variables.size(), field.per_set ? ", once per set" : "");
}

bool follows(const Field& field, const RoleRule& rule) {
  const auto variables = has_variables(field.role) ? field.shape.back() : 0;
  return std::ranges::count(rule.dtypes, field.dtype) > 0 && std::ranges::count(rule.per_set, field.per_set) > 0 &&
         std::ssize(field.variables) == variables && variables <= kMaxChannels;
}

/// A grid has a number for each point of images or conditions.
std::string problem_of_grid(const Field& field, const PointScales& grid) {
  if (field.role != FieldRole::image && field.role != FieldRole::condition) {
    return fmt::format("its transform is a grid, which {} never have", rule_of(field.role).name);
  }
  if (grid.sides == field.format().sides()) return "";
  return fmt::format("its transform is a grid of {} points, {} are wanted", fmt::join(grid.sides, " × "),
                     size_text(field.format()));
}

/// uint8 values are pictures, which one map suits.
void expect_transforms(const Field& field, const std::string& where) {
  for (const Variable& variable : field.variables) {
    std::string problem = variable.transform.problem();
    if (problem.empty() && variable.transform.has_grid()) problem = problem_of_grid(field, *variable.transform.grid);
    if (!problem.empty()) throw DatasetError("{}: variable \"{}\": {}", where, variable.name, problem);
    if (field.dtype == DType::u8 && variable.transform != Transform(Normalization::of(DType::u8))) {
      throw DatasetError("{}: variable \"{}\" has another transform than x / 127.5 - 1, which uint8 always has", where,
                         variable.name);
    }
  }
}

std::string channel_name(const ImageFormat& format, int64_t channel) {
  constexpr std::array<std::string_view, 3> kColours = {"red", "green", "blue"};
  if (format.dtype == DType::u8 && format.channels == std::ssize(kColours)) {
    return std::string(kColours.at(static_cast<std::size_t>(channel)));
  }
  if (format.dtype == DType::u8 && format.channels == 1) return "grey";
  return fmt::format("channel {}", channel);
}

}  // namespace

std::string_view numpy_name(DType dtype) {
  if (dtype == DType::u8) return "uint8";
  if (dtype == DType::f32) return "float32";
  DDPM_CHECK(dtype == DType::i64, "no field is of type {}", base::safetensors_name(dtype));
  return "int64";
}

std::size_t Field::bytes() const {
  std::size_t bytes = base::size_of(dtype);
  for (const int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

bool Field::is_read_in_blocks() const {
  return role == FieldRole::image || role == FieldRole::condition || (role == FieldRole::mask && !per_set);
}

ImageFormat ImageFormat::of(const std::vector<int64_t>& shape, DType dtype) {
  const std::size_t flat = shape.size() == 4 ? 1 : 0;
  return {.height = shape.at(flat),
          .width = shape.at(flat + 1),
          .channels = shape.at(flat + 2),
          .dtype = dtype,
          .depth = flat == 1 ? shape[0] : 0};
}

std::vector<int64_t> ImageFormat::sides() const {
  return depth == 0 ? std::vector{height, width} : std::vector{depth, height, width};
}

std::vector<int64_t> ImageFormat::shape() const {
  std::vector<int64_t> shape = sides();
  shape.push_back(channels);
  return shape;
}

bool is_like_image(FieldRole role) {
  return role == FieldRole::image || role == FieldRole::condition || role == FieldRole::static_values;
}

bool has_variables(FieldRole role) { return role != FieldRole::mask && role != FieldRole::labels; }

bool is_per_set(FieldRole role, std::size_t axes, std::size_t sides) {
  return role == FieldRole::static_values || (role == FieldRole::mask && axes == sides);
}

DType number_type(FieldRole role) {
  if (role == FieldRole::mask) return DType::u8;
  return role == FieldRole::labels ? DType::i64 : DType::f32;
}

std::string array_path(FieldRole role) {
  return role == FieldRole::image ? kImagesPath : fmt::format("/{}", base::name_of(role));
}

std::string size_text(const ImageFormat& format) { return fmt::format("{}", fmt::join(format.sides(), " × ")); }

ImageFormat Field::format() const {
  std::vector<int64_t> with_channels = shape;
  if (role == FieldRole::mask) with_channels.push_back(1);
  return ImageFormat::of(with_channels, dtype);
}

Normalization Field::common_map() const {
  const Transform& first = variables.front().transform;
  const bool common = first.type == TransformType::affine &&
                      std::ranges::all_of(variables, [&](const Variable& v) { return v.transform == first; });
  return common ? first.map() : Normalization{};
}

Field make_field(FieldRole role, std::string path, std::vector<int64_t> shape, DType dtype, bool per_set) {
  std::string name = path;
  name.erase(0, name.find_first_not_of('/'));
  Field field{.name = std::move(name),
              .role = role,
              .path = std::move(path),
              .shape = std::move(shape),
              .dtype = dtype,
              .variables = {},
              .per_set = per_set};
  const RoleRule rule = rule_of(role);
  if (!has_variables(role) || !has_axes(field, rule) || field.shape.back() > kMaxChannels) return field;
  for (int64_t c = 0; c < field.shape.back(); ++c) {
    const bool channels = rule.axes == 3;
    field.variables.push_back({.name = channels ? channel_name(field.format(), c) : fmt::format("parameter {}", c),
                               .unit = "",
                               .transform = Normalization::of(dtype)});
  }
  return field;
}

std::vector<Field> image_fields(const ImageFormat& format, const Normalization& normalization, bool has_labels) {
  std::vector<Field> fields = {make_field(FieldRole::image, kImagesPath, format.shape(), format.dtype, false)};
  for (Variable& variable : fields.front().variables) variable.transform = normalization;
  if (has_labels) fields.push_back(make_field(FieldRole::labels, kLabelsPath, {}, DType::i64, false));
  return fields;
}

void expect_usable(const Field& field, const std::string& where) {
  const RoleRule rule = rule_of(field.role);
  if (!has_axes(field, rule) || !follows(field, rule)) {
    throw DatasetError("{}: {} are {}, {} is wanted", where, rule.name, described(field), rule.wanted);
  }
  int64_t elements = 1;
  for (const int64_t extent : field.shape) elements = std::min(kMaxElements + 1, elements * std::min(extent, kMaxSide));
  if (elements > kMaxElements) {
    throw DatasetError("{}: {} of [{}] are larger than {} elements", where, rule.name, fmt::join(field.shape, ", "),
                       kMaxElements);
  }
  expect_transforms(field, where);
}

const Field* field_of(const std::vector<Field>& fields, FieldRole role) {
  const auto found = std::ranges::find(fields, role, &Field::role);
  return found == fields.end() ? nullptr : &*found;
}

void expect_fitting(const std::vector<Field>& fields, const std::string& where) {
  const std::vector<int64_t> wanted = field_of(fields, FieldRole::image)->format().sides();
  for (const Field& field : fields) {
    if (field.shape.size() < 2 || field.role == FieldRole::image) continue;
    const std::vector<int64_t> grid = field.format().sides();
    const int64_t times = std::max<int64_t>(1, wanted[0] / grid[0]);
    const bool may_be_coarser = field.role == FieldRole::condition;
    const bool fits = std::ranges::equal(grid, wanted, [times](int64_t a, int64_t b) { return a * times == b; });
    if (fits && (times == 1 || may_be_coarser)) continue;
    throw DatasetError(
        "{}: {} of {} ({}height × width) beside images of {}: {} is wanted", where, rule_of(field.role).name,
        fmt::join(grid, " × "), grid.size() == 3 ? "depth × " : "", fmt::join(wanted, " × "),
        may_be_coarser ? "the same size, or one that is smaller by the same whole number both ways" : "the same size");
  }
}

}  // namespace ddpm::data
