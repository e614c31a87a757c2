#include "cli/field_text.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/named.h"

namespace ddpm::cli {
namespace {

/// Whether all that is known of a field follows from its shape and type.
bool is_plain(const data::Field& field) {
  return field.variables == data::make_field(field.role, field.path, field.shape, field.dtype, field.per_set).variables;
}

std::string variable_text(const data::Variable& variable) {
  const bool mapped = variable.transform != data::Transform();
  return fmt::format("    {}{}{}\n", variable.name, variable.unit.empty() ? "" : fmt::format(" [{}]", variable.unit),
                     mapped ? ": " + variable.transform.text() : "");
}

}  // namespace

std::string fields_text(const std::vector<data::Field>& fields) {
  const bool has_others = std::ranges::any_of(fields, [](const data::Field& field) {
    return field.role != data::FieldRole::image && field.role != data::FieldRole::labels;
  });
  std::string text;
  for (const data::Field& field : fields) {
    if (!has_others && is_plain(field)) continue;
    text += fmt::format("  {} ({}): [{}] {}{}\n", field.name, base::name_of(field.role), fmt::join(field.shape, ", "),
                        data::numpy_name(field.dtype), field.per_set ? ", once per set" : "");
    if (is_plain(field)) continue;
    for (const data::Variable& variable : field.variables) text += variable_text(variable);
  }
  return text;
}

}  // namespace ddpm::cli
