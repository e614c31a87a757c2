// The manual's pages, made from the declared commands.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/command_facts.h"

namespace ddpm::cli {

/// Names and texts of the pages for section 1: "ddpm.1" of the program, "ddpm-data.1" of each of its commands with all
/// that is below it.
std::vector<std::pair<std::string, std::string>> man_pages(const CommandFacts& program);

}  // namespace ddpm::cli
