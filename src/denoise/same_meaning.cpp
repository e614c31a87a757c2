#include "denoise/same_meaning.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"

namespace ddpm::denoise {
namespace {

bool is_same(const data::Variable& seen, const data::Variable& trained, VariableRule rule) {
  const bool names = seen.name == trained.name && seen.unit == trained.unit;
  const bool transforms = seen.transform == trained.transform;
  return (rule == VariableRule::transforms || names) && (rule == VariableRule::names || transforms);
}

std::string text_of(const data::Field& field, VariableRule rule) {
  std::vector<std::string> each;
  for (const auto& [name, unit, transform] : field.variables) {
    each.push_back(fmt::format("{} ({}){}", name, unit.empty() ? "no unit" : unit,
                               rule == VariableRule::names ? "" : fmt::format(" by {}", transform.text())));
  }
  return fmt::format("{}", fmt::join(each, ", "));
}

/// What helps where a folder's values are as they were measured, and the model saw others; "" where nothing does.
std::string way_out(const data::Field& seen, const std::string& path, VariableRule rule) {
  const auto as_measured = [](const auto& variable) { return variable.transform == data::Transform(); };
  if (rule == VariableRule::names || !std::ranges::all_of(seen.variables, as_measured)) return "";
  return fmt::format("; the folder's files, named as '{}/*.h5', take these", path);
}

}  // namespace

void expect_same_variables(const HeldAgainst& sets, const data::Field& seen, const data::Field& trained,
                           VariableRule rule) {
  const bool bare = sets.set.info().shards.front().sha256.empty();
  const auto same = [rule](const auto& one, const auto& other) { return is_same(one, other, rule); };
  if (bare || std::ranges::equal(seen.variables, trained.variables, same)) return;
  const std::string path = sets.set.path().string();
  throw base::DatasetError("{}: {}: its field of role {} holds {}; as in {} is wanted: {}{}", sets.asked, path,
                           base::name_of(seen.role), text_of(seen, rule), sets.trained, text_of(trained, rule),
                           way_out(seen, path, rule));
}

void expect_same_classes(const HeldAgainst& sets, const std::vector<std::string>& trained) {
  const std::vector<std::string>& seen = sets.set.info().class_names;
  if (seen.empty() || trained.empty() || seen == trained) return;
  throw base::DatasetError("{}: {}: its {} classes are not the {} of {}, so labels mean other things", sets.asked,
                           sets.set.path().string(), seen.size(), trained.size(), sets.trained);
}

}  // namespace ddpm::denoise
