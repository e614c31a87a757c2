// What is wrong with a command line, for people.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace ddpm::cli {

/// One line: what `error` says, or the unknown word, with the known word that is nearest to it, and the command whose
/// --help says more ("unknown option --sise; did you mean --size? Try ddpm data create --help").
std::string usage_text(const CLI::App& app, const CLI::ParseError& error);

}  // namespace ddpm::cli
