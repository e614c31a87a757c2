// Operations over a Schema: reading TOML and dotted overrides, printing, documenting, hashing, comparing.
//
// Every function throws base::ConfigError (exit code 2) with one line: file or option, key, value seen, value wanted.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/schema.h"

namespace ddpm::config {

/// Parses a TOML file into a table of sections. Throws ConfigError with file, line and reason.
Table read_toml(const std::filesystem::path& path);
Table parse_toml(std::string_view text, const std::string& origin);

/// Assigns `value` to an entry, checking type, range and choices. An int is accepted where a float is wanted.
void assign(const Entry& entry, const Value& value, const std::string& origin);

/// Returns the value that `table`, as read from a file, gives the key of a section, or null.
const Value* find_value(const Table& table, std::string_view section, std::string_view key);

/// Checks every key's current value against its declaration, as assign() does. It serves programs that set values
/// themselves.
void check_values(const Schema& schema);

/// Assigns every key of `table` (section tables of keys). An unknown key names the nearest known one, or those of its
/// section. Tables that are
/// applied one after the other overlay each other.
void apply(const Schema& schema, const Table& table, const std::string& origin);

/// Assigns "--section.key VALUE" or "--section.key=VALUE" pairs, in order. VALUE is parsed as TOML; what is not TOML is
/// a string.
void apply_overrides(const Schema& schema, std::span<const std::string> arguments);

/// The current values as TOML: with `documented`, each key under its comment (what `ddpm config show` prints). An
/// absent optional is a comment. Reading the text back gives the same values (and the same hash).
std::string to_toml(const Schema& schema, bool documented);

/// A Markdown table per section: key, default, documentation (docs/configuration.md).
std::string to_markdown(const Schema& schema);

/// SHA-256 over the keys that belong to a run's identity, in a canonical form independent of declaration order.
std::string identity_hash(const Schema& schema);

struct Difference {
  std::string path;    ///< "section.key"
  std::string stored;  ///< as TOML text
  std::string now;
  Identity identity;
  std::string way_out;  ///< "data.continue_with_other = true", which lets it change on resume; "": nothing does
};
/// The keys in which `stored` (a config.toml written earlier by to_toml) differs from the current values. A key that
/// `stored` does not know counts with its default.
std::vector<Difference> differences(const Schema& schema, const Table& stored);

/// The key that a misspelt `path` ("section.key", or "key" alone) was meant to be, or "" when none is near.
std::string nearest_key(const Schema& schema, const std::string& path);

/// The candidate nearest to `word` by edit distance, or "" when none is near.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace ddpm::config
