#include "denoise/turns.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "diffusion/noise.h"

namespace ddpm::denoise {
namespace {

/// "-v" of "u, -v". Spaces around a name do not count.
Component component(std::string text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  const auto trim = [&] {
    text.erase(text.begin(), std::ranges::find_if_not(text, is_blank));
    while (!text.empty() && is_blank(text.back())) text.pop_back();
  };
  trim();
  const bool against = text.starts_with('-');
  if (against) text.erase(0, 1);
  trim();
  return {.name = text, .against = against};
}

/// The place of the variable `name`, or `field/name`; none if the field has no such variable.
std::optional<int64_t> place_of(const data::Field& field, const std::string& name) {
  const auto found = std::ranges::find_if(field.variables, [&](const data::Variable& variable) {
    return variable.name == name || field.name + "/" + variable.name == name;
  });
  if (found == field.variables.end()) return std::nullopt;
  return found - field.variables.begin();
}

bool holds(const data::Field& field, const Vector& vector) {
  return place_of(field, vector.along_width.name) && place_of(field, vector.along_height.name);
}

void expect_components(const Vector& vector, const std::vector<data::Field>& fields) {
  const std::string names = vector.along_width.name + ", " + vector.along_height.name;
  bool found = false;
  for (const data::Field& field : fields) {
    if (!holds(field, vector)) continue;
    found = true;
    if (field.dtype == base::DType::f32) continue;
    throw base::ConfigError("data.vectors: \"{}\": {} holds {}; wanted: float32", names, field.path,
                            data::numpy_name(field.dtype));
  }
  if (!found) throw base::ConfigError("data.vectors: \"{}\": no field of the set has variables of both names", names);
}

at::Tensor reversed_where(const at::Tensor& reversed, const at::Tensor& coordinate, int64_t side) {
  return at::where(reversed, side - 1 - coordinate, coordinate);
}

/// -1 where true, otherwise 1: float32 [n, 1].
at::Tensor signs(const at::Tensor& negative) { return (1.0 - 2.0 * negative.to(at::kFloat)).unsqueeze(1); }

}  // namespace

std::vector<Vector> vectors_of(const std::vector<std::string>& texts) {
  std::vector<Vector> vectors;
  std::vector<std::string> taken;
  for (const std::string& text : texts) {
    const std::size_t comma = text.find(',');
    const std::string rest = comma == std::string::npos ? "" : text.substr(comma + 1);
    const Vector vector{.along_width = component(text.substr(0, comma)), .along_height = component(rest)};
    const std::string& width = vector.along_width.name;
    const std::string& height = vector.along_height.name;
    const bool two = !width.empty() && !height.empty() && width != height && rest.find(',') == std::string::npos;
    if (!two) {
      throw base::ConfigError(
          "data.vectors: \"{}\": the variables along the width and the height are wanted, such as \"u, v\"", text);
    }
    for (const std::string& name : {width, height}) {
      if (std::ranges::count(taken, name) > 0) {
        throw base::ConfigError("data.vectors names {} twice; a variable is a component of one vector", name);
      }
      taken.push_back(name);
    }
    vectors.push_back(vector);
  }
  return vectors;
}

void expect_turnable(const data::DataConfig& data, const data::DatasetInfo& info, const data::ImageFormat& window) {
  if (data.quarter_turns && window.height != window.width) {
    throw base::ConfigError("data.quarter_turns = true: images are {}; wanted: as high as wide",
                            data::size_text(window));
  }
  for (const Vector& vector : vectors_of(data.vectors)) expect_components(vector, info.fields);
}

void expect_no_grids(const std::vector<Vector>& vectors, const std::vector<data::Field>& fields) {
  for (const Vector& vector : vectors) {
    for (const data::Field& field : fields) {
      if (!holds(field, vector)) continue;
      for (const std::string& name : {vector.along_width.name, vector.along_height.name}) {
        const data::Variable& variable = field.variables[static_cast<std::size_t>(*place_of(field, name))];
        if (!variable.transform.has_grid()) continue;
        throw base::ConfigError(
            "data.vectors: {} of {} has the transform {}, whose means do not turn as vectors; wanted: another "
            "transform, such as standardize",
            variable.name, field.name, variable.transform.text());
      }
    }
  }
}

Turns Turns::draw(const Augmentation& augmentation, const at::Tensor& step, layout::Range positions) {
  const diffusion::Draws draws{augmentation.seed, step, positions.begin, positions.size()};
  const auto drawn = [&](bool wanted, base::Stream stream, int64_t below) {
    return wanted ? draws.integers(stream, below)
                  : at::zeros({positions.size()}, at::TensorOptions(step.device()).dtype(at::kLong));
  };
  const at::Tensor turns = drawn(augmentation.quarter_turns, base::Stream::quarter_turns, 4);
  const at::Tensor left_right = drawn(augmentation.horizontal_flip, base::Stream::flip, 2).eq(1);
  const at::Tensor top_bottom = drawn(augmentation.vertical_flip, base::Stream::vertical_flip, 2).eq(1);
  const at::Tensor transposed = turns.remainder(2).eq(1);
  // A quarter turn to the left shows the pixel (column, side - 1 - row) at (row, column); mirrors come afterwards.
  const at::Tensor rows = turns.ge(2);
  const at::Tensor columns = turns.eq(1).logical_or(turns.eq(2));
  return {.transposed = transposed,
          .rows_reversed = rows.logical_xor(at::where(transposed, left_right, top_bottom)),
          .columns_reversed = columns.logical_xor(at::where(transposed, top_bottom, left_right))};
}

at::Tensor Turns::pixels(const at::Tensor& stored, int64_t height) const {
  const int64_t n = transposed.size(0);
  const int64_t width = stored.size(2);
  const int64_t layers = stored.size(1) / height;
  const at::Tensor row = at::arange(height, stored.options()).view({1, height, 1});
  const at::Tensor column = at::arange(width, stored.options()).view({1, 1, width});
  const at::Tensor exchanged = transposed.view({n, 1, 1});
  const at::Tensor from_row = reversed_where(rows_reversed.view({n, 1, 1}), at::where(exchanged, column, row), height);
  const at::Tensor from_column =
      reversed_where(columns_reversed.view({n, 1, 1}), at::where(exchanged, row, column), width);
  const at::Tensor in_layer = (from_row * width + from_column).view({n, 1, height * width});
  const at::Tensor first = at::arange(layers, stored.options()).view({1, layers, 1}) * (height * width);
  return stored.flatten(1).expand({n, -1}).gather(1, (in_layer + first).flatten(1)).view({n, layers * height, width});
}

Components::Components(const data::Field& field, const std::vector<Vector>& vectors, at::Device device) {
  const std::size_t count = field.variables.size();
  std::vector<int64_t> partner(count);
  std::iota(partner.begin(), partner.end(), 0);
  std::vector<int64_t> along_width(count, 0);
  std::vector<int64_t> along_height(count, 0);
  std::vector<float> sign(count, 1.0F);
  bool found = false;
  for (const Vector& vector : vectors) {
    if (!holds(field, vector)) continue;
    found = true;
    const auto width = static_cast<std::size_t>(*place_of(field, vector.along_width.name));
    const auto height = static_cast<std::size_t>(*place_of(field, vector.along_height.name));
    along_width[width] = along_height[height] = 1;
    partner[width] = static_cast<int64_t>(height);
    partner[height] = static_cast<int64_t>(width);
    sign[width] = sign[height] = vector.along_width.against == vector.along_height.against ? 1.0F : -1.0F;
  }
  if (!found) return;
  along_width_ = at::tensor(along_width, at::kLong).to(device, at::kBool);
  along_height_ = at::tensor(along_height, at::kLong).to(device, at::kBool);
  partner_ = at::tensor(partner, at::kLong).to(device);
  exchange_sign_ = at::tensor(sign, at::kFloat).to(device);
}

/// Where rows and columns are exchanged, what pointed along the rows of the stored image points along the columns of
/// the one that is seen: its sign is that of the stored axis.
at::Tensor Components::turned(const at::Tensor& values, const Turns& turns) const {
  if (!any()) return values;
  const int64_t n = values.size(0);
  const int64_t c = values.size(-1);
  const at::Tensor transposed = turns.transposed.unsqueeze(1);
  const at::Tensor of_rows = signs(turns.rows_reversed);
  const at::Tensor of_columns = signs(turns.columns_reversed);
  const at::Tensor one = at::ones({}, exchange_sign_.options());
  const at::Tensor sign = at::where(along_height_, at::where(transposed, of_columns, of_rows),
                                    at::where(along_width_, at::where(transposed, of_rows, of_columns), one)) *
                          at::where(transposed, exchange_sign_, one);
  const at::Tensor own = at::arange(c, partner_.options());
  const at::Tensor from = at::where(transposed, partner_, own).unsqueeze(1).expand({n, values.numel() / (n * c), c});
  return (values.reshape({n, -1, c}).gather(2, from) * sign.unsqueeze(1)).view(values.sizes());
}

}  // namespace ddpm::denoise
