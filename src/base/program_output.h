// What another program of the machine says on its stdout: for facts that only it knows, such as Slurm's account.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ddpm::base {

/// Runs `words`, the program's name (looked for in PATH) and its arguments, without a shell, with nothing on stdin and
/// with stderr thrown away. Returns what it wrote when it ended with 0, within `limit`, with at most 1 MiB; nothing
/// otherwise. One that takes longer is killed.
std::optional<std::string> program_output(const std::vector<std::string>& words, std::chrono::seconds limit);

}  // namespace ddpm::base
