// The configuration on a command line: CONFIG files and "--section.key VALUE" pairs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace ddpm::cli {

struct ConfigArguments {
  std::vector<std::string> files;      ///< in the order of the command line: later ones win
  std::vector<std::string> overrides;  ///< "--section.key=VALUE"
};

/// Declares CONFIG..., which is returned, and lets `app` take pairs.
CLI::Option* add_config_arguments(
    CLI::App& app, const std::shared_ptr<ConfigArguments>& arguments, bool required,
    const std::string& help = "Configuration in TOML; of several files the later ones win");

/// The pairs that `app` was given, for its callback. Throws CLI::ExtrasError for a word that is not one.
std::vector<std::string> config_pairs(const CLI::App& app);

/// Whether `word` begins like a pair: "--section.key" or "--section.key=VALUE".
bool is_config_pair(const std::string& word);

/// The words of the command line after the program's name, with "--section.key VALUE" joined to one word
/// "--section.key=VALUE": CLI11, which does not know the keys, would take VALUE for a file.
std::vector<std::string> joined_words(int argc, const char* const* argv);

}  // namespace ddpm::cli
