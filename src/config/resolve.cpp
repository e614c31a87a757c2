// Assigning tables and command-line overrides to keys, and naming the key that a misspelt one was meant to be.
#include "config/resolve.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "config/toml_value.h"
#include "config/value.h"

namespace ddpm::config {
namespace {

// Levenshtein: insertions, deletions and substitutions that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

bool sets(const Table& section, std::string_view key) {
  return std::any_of(section.begin(), section.end(), [&](const auto& item) { return item.first == key; });
}

/// Unsets the key that `entry` replaces.
void unset_other(const Schema& schema, const Entry& entry, const std::string& origin) {
  if (entry.options.instead_of.empty()) return;
  const Entry* other = schema.find(fmt::format("{}.{}", entry.section, entry.options.instead_of));
  DDPM_CHECK(other != nullptr, "{} stands for a key that there is not", entry.path());
  assign(*other, Value{}, origin);
}

}  // namespace

std::string nearest_key(const Schema& schema, const std::string& path) {
  const std::string key = path.substr(path.rfind('.') + 1);
  std::vector<std::string> all;
  std::vector<std::string> same_key;
  for (const Entry& entry : schema.entries()) {
    all.push_back(entry.path());
    if (entry.key == key) same_key.push_back(entry.path());
  }
  if (same_key.size() == 1) return same_key.front();
  // A key of this exact name in another section is more likely meant than one of similar spelling.
  return nearest(path, same_key.empty() ? all : same_key);
}

namespace {

/// A name from a file: in quotes where it holds what an error line would break or end at, such as a zero byte.
std::string shown(const std::string& name) {
  const bool plain =
      std::none_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20U; });
  return plain ? name : to_short_text(Value{name});
}

[[noreturn]] void refuse_unknown_section(const Schema& schema, const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& [known, doc] : schema.sections()) names.push_back(known);
  const std::string near = nearest(name, names);
  if (near.empty())
    throw base::ConfigError("unknown section [{}]{}; known: {}", shown(name), where, fmt::join(names, ", "));
  throw base::ConfigError("unknown section [{}]{}; did you mean [{}]?", shown(name), where, near);
}

bool has_section(const Schema& schema, const std::string& name) {
  const auto& sections = schema.sections();
  return std::any_of(sections.begin(), sections.end(), [&](const auto& section) { return section.first == name; });
}

constexpr std::size_t kShortestPart = 3;  // of a key by which it is found

/// The keys of a section of which `part` is a part, such as zero_stage for zero; without it, all.
std::vector<std::string> keys_of(const Schema& schema, std::string_view section, std::string_view part = {}) {
  std::vector<std::string> keys;
  for (const Entry& entry : schema.entries()) {
    if (entry.section == section && entry.key.find(part) != std::string::npos) keys.push_back(entry.key);
  }
  return keys;
}

[[noreturn]] void refuse_unknown(const Schema& schema, const std::string& path, const std::string& where) {
  const std::size_t dot = std::min(path.find('.'), path.size());
  const std::string section = path.substr(0, dot);
  const std::string key = path.substr(std::min(dot + 1, path.size()));
  const std::string near = nearest_key(schema, path);
  const bool elsewhere = near.ends_with("." + key);
  const std::vector<std::string> with_it =
      key.size() < kShortestPart || elsewhere ? std::vector<std::string>{} : keys_of(schema, section, key);
  if (!with_it.empty()) {
    throw base::ConfigError("unknown key {}{}; did you mean {}.{}?", shown(path), where, section,
                            fmt::join(with_it, fmt::format(" or {}.", section)));
  }
  if (!near.empty()) throw base::ConfigError("unknown key {}{}; did you mean {}?", shown(path), where, near);
  if (key.empty()) throw base::ConfigError("unknown key {}{}", shown(path), where);
  if (!has_section(schema, section)) refuse_unknown_section(schema, section, where);
  throw base::ConfigError("unknown key {}{}; keys of [{}]: {}", shown(path), where, section,
                          fmt::join(keys_of(schema, section), ", "));
}

void apply_section(const Schema& schema, const std::string& name, const Value& value, const std::string& origin) {
  const std::string where = place(origin, value.line);
  const auto* table = std::get_if<Table>(&value.data);
  if (table == nullptr) {
    if (!has_section(schema, name)) refuse_unknown(schema, name, where);
    throw base::ConfigError("{} = {}{}; wanted: a section [{}]", name, to_short_text(value), where, name);
  }
  if (!has_section(schema, name)) refuse_unknown_section(schema, name, where);
  for (const Entry& entry : schema.entries()) {
    if (entry.section == name && sets(*table, entry.key)) unset_other(schema, entry, origin);
  }
  for (const auto& [key, item] : *table) {
    const std::string path = fmt::format("{}.{}", name, key);
    const Entry* entry = schema.find(path);
    if (entry == nullptr) refuse_unknown(schema, path, place(origin, item.line));
    assign(*entry, item, origin);
  }
}

// A string key takes any text as it stands: a folder may be called 5 or true.
Value override_value(const Entry& entry, const std::string& text) {
  std::optional<Value> parsed = parse_toml_value(text);
  if (!parsed) return {text};
  const bool is_text = std::holds_alternative<std::string>(parsed->data);
  const bool is_list = std::holds_alternative<Array>(parsed->data) || std::holds_alternative<Table>(parsed->data);
  if ((wants_text(entry) && !is_text) || (wants_texts(entry) && !is_text && !is_list)) return {text};
  return *std::move(parsed);
}

struct Override {
  const Entry* entry;
  std::string text;
};

std::vector<Override> parse_overrides(const Schema& schema, std::span<const std::string> arguments) {
  std::vector<Override> overrides;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--") || argument.size() == 2) {
      throw base::ConfigError("unexpected argument {}; wanted: --section.key VALUE", argument);
    }
    const std::size_t equals = argument.find('=');
    const std::string path = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const Entry* entry = schema.find(path);
    if (entry == nullptr) refuse_unknown(schema, path, place(kCommandLine, 0));
    if (equals == std::string::npos && i + 1 == arguments.size()) {
      throw base::ConfigError("{} has no value on the command line; wanted: --{} VALUE", path, path);
    }
    overrides.push_back({entry, equals == std::string::npos ? arguments[++i] : argument.substr(equals + 1)});
  }
  return overrides;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::size_t limit = std::max<std::size_t>(2, word.size() / 3);
  std::size_t best = limit + 1;
  std::string found;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best || distance >= std::max(word.size(), candidate.size())) continue;
    best = distance;
    found = candidate;
  }
  return found;
}

void apply(const Schema& schema, const Table& table, const std::string& origin) {
  for (const auto& [name, value] : table) apply_section(schema, name, value, origin);
}

void apply_overrides(const Schema& schema, std::span<const std::string> arguments) {
  const std::string origin(kCommandLine);
  const std::vector<Override> overrides = parse_overrides(schema, arguments);
  for (const Override& one : overrides) unset_other(schema, *one.entry, origin);
  for (const Override& one : overrides) assign(*one.entry, override_value(*one.entry, one.text), origin);
}

}  // namespace ddpm::config
