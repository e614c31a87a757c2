// Converts values to text and to C++; assigning, printing, hashing and comparing build on it.
#pragma once

#include <string>
#include <string_view>

#include "config/schema.h"

namespace ddpm::config {

/// `value` as TOML on one line ("unset" for null). Floats are the shortest text that reads back as the same number, and
/// always look like floats. Throws std::invalid_argument when a string is not UTF-8.
std::string to_text(const Value& value);

/// Returns to_text's result cut to a length that suits an error line.
std::string to_short_text(const Value& value);

/// A string as a TOML literal. Throws std::invalid_argument when it is not UTF-8.
std::string quoted(const std::string& text);

/// The choices with commas between, an empty one as "".
std::string choices_text(const std::vector<std::string>& choices);

/// What `value` becomes in the target of `entry`: numbers of its type, a list for a scalar. Nothing is stored.
/// Throws ConfigError as assign() does.
Value canonical(const Entry& entry, const Value& value, std::string_view origin);

/// Whether the target is a string.
bool wants_text(const Entry& entry);
/// Whether the target is a list of strings, or of weighted paths.
bool wants_texts(const Entry& entry);

/// Returns " in ORIGIN:LINE" or what the origin demands, and nothing for an empty one, which is a program's own.
std::string place(std::string_view origin, uint32_t line);

/// The origin of what was given as "--section.key VALUE".
inline constexpr std::string_view kCommandLine = "the command line";

}  // namespace ddpm::config
