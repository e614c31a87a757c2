// Scripts for shells, made from the declared commands: what they offer follows from the declarations.
//
// They complete subcommands, options, the words that an option accepts, keys of the configuration as "--section.key"
// with their words, and files where any text is taken. They run nothing but the shell: no completion starts this
// program.
#pragma once

#include <string>
#include <vector>

#include "cli/command_facts.h"

namespace ddpm::cli {

std::string bash_completion(const CommandFacts& program, const std::vector<KeyFacts>& keys);
std::string zsh_completion(const CommandFacts& program, const std::vector<KeyFacts>& keys);
std::string fish_completion(const CommandFacts& program, const std::vector<KeyFacts>& keys);

}  // namespace ddpm::cli
