// `ddpm data adopt`, and what `ddpm data verify` does with an adopted file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "cli/command_line.h"
#include "cli/context.h"

namespace ddpm::cli {

/// Declares the subcommand `adopt` of `data`; when it is chosen it sets `command`.
void declare_data_adopt(const Subcommand& data, Command& command);

/// What the digests beside files say.
struct AdoptedBytes {
  uint64_t bytes = 0;                ///< bytes that were compared: all of the files
  std::vector<std::string> damaged;  ///< a line for each chunk or block that has changed
  std::vector<std::string> arrays;   ///< names of the arrays in the first file
  bool all = true;                   ///< whether all of several files are adopted

  [[nodiscard]] bool has(const std::string& array) const;
};
/// Compares adopted files with their digests; nothing where there is none. Collective.
std::optional<AdoptedBytes> compare_adopted(Context& context, const base::Path& path);

}  // namespace ddpm::cli
