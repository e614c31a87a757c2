// What belongs to a run's identity, as a hash, and what changed since it was written.
#include <algorithm>

#include "base/error.h"
#include "base/sha256.h"
#include "config/resolve.h"
#include "config/value.h"

namespace ddpm::config {
namespace {

/// Returns the earlier value of a key that `stored` does not hold: its default, or unset where `stored` holds the key
/// that it replaces.
Value absent_value(const Schema& schema, const Table& stored, const Entry& entry) {
  const Entry* other = schema.find(entry.section + "." + entry.options.instead_of);
  return other != nullptr && find_value(stored, other->section, other->key) != nullptr ? Value{} : entry.default_value;
}

/// Whether a value is true, or a whole number above 0.
bool is_set(const Value& value) {
  const auto* number = std::get_if<int64_t>(&value.data);
  return number != nullptr ? *number > 0 : std::get<bool>(value.data);
}

/// What the key is under the configuration as it is now.
Identity identity_now(const Schema& schema, const Entry& entry) {
  const Entry* other = schema.find(entry.section + "." + entry.options.freed_by);
  return other != nullptr && is_set(current(*other)) ? Identity::may_change : entry.identity;
}

/// The switch that lets the key change, turned on.
std::string way_out(const Schema& schema, const Entry& entry) {
  const Entry* other = schema.find(entry.section + "." + entry.options.freed_by);
  const bool is_switch = other != nullptr && std::holds_alternative<bool>(current(*other).data);
  return is_switch ? other->path() + " = true" : "";
}

}  // namespace

const Value* find_value(const Table& table, std::string_view section, std::string_view key) {
  const auto named = [](const Table& items, std::string_view name) -> const Value* {
    const auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == name; });
    return found == items.end() ? nullptr : &found->second;
  };
  const Value* held = named(table, section);
  const auto* keys = held == nullptr ? nullptr : std::get_if<Table>(&held->data);
  return keys == nullptr ? nullptr : named(*keys, key);
}

std::string identity_hash(const Schema& schema) {
  std::vector<std::string> lines;
  for (const Entry& entry : schema.entries()) {
    if (entry.identity == Identity::fixed) lines.push_back(entry.path() + " = " + to_text(current(entry)) + "\n");
  }
  std::sort(lines.begin(), lines.end());
  base::Sha256 hash;
  for (const std::string& line : lines) hash.update(line);
  return hash.hex();
}

std::vector<Difference> differences(const Schema& schema, const Table& stored) {
  std::vector<Difference> result;
  for (const Entry& entry : schema.entries()) {
    const Value* before = find_value(stored, entry.section, entry.key);
    const Value known =
        before == nullptr ? absent_value(schema, stored, entry) : canonical(entry, *before, "the stored configuration");
    std::string then = to_text(known);
    std::string now = to_text(current(entry));
    if (then == now) continue;
    result.push_back(
        {entry.path(), std::move(then), std::move(now), identity_now(schema, entry), way_out(schema, entry)});
  }
  return result;
}

}  // namespace ddpm::config
