// The configuration on a command line: CONFIG files and "--section.key VALUE" pairs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.h"

namespace ddpm::cli {

struct ConfigArguments {
  std::vector<std::string> files;      ///< in the order of the command line: later ones win
  std::vector<std::string> overrides;  ///< "--section.key=VALUE"
};

/// Declares CONFIG..., which is returned, and lets `command` take pairs.
Option add_config_arguments(const Subcommand& command, const std::shared_ptr<ConfigArguments>& arguments, bool required,
                            const std::string& help = "Configuration in TOML; of several files the later ones win");

}  // namespace ddpm::cli
