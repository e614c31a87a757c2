// What is wrong with a command line, for people.
#pragma once

#include <string>

#include "cli/command_line.h"

namespace ddpm::cli {

/// One line: `reason`, or the unknown word, with the known word that is nearest to it, and the command whose --help
/// says more ("unknown option --sise; did you mean --size? Try ddpm data create --help").
std::string usage_text(const CommandLine& line, const std::string& reason);

}  // namespace ddpm::cli
