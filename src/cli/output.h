// Results on stdout, as text or JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Writes rank 0's `text` to stdout, which is for results, and ends its last line if `text` does not. The ranks agree
/// on it: when a byte of it is lost, all throw OutputError. Collective; the `text` of the other ranks is not looked at.
void print(const Context& context, const std::string& text);

/// Declares --json, which sets `json`: the result is to be one JSON object.
void add_json_flag(const Subcommand& command, bool& json);

/// Writes the JSON in one line; bytes of a path that are not UTF-8 are replaced.
std::string dump(const base::OrderedJson& json);

}  // namespace ddpm::cli
