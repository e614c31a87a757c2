// Options of subcommands that open a dataset: which arrays or variables of a file they mean, as the keys of [data] say
// it.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "data/config.h"
#include "data/dataset_options.h"

namespace ddpm::cli {

/// What a command line says of a dataset. It has to live as long as the command line.
struct DatasetArguments {
  data::DataConfig values = {};  ///< the keys that have no list
  std::string variables = {};    ///< separated by commas, as are the next two
  std::string axes = {};
  std::string sample_axes = {};
  std::string missing = "refuse";
};

/// Adds --images, --labels, --condition, --static, --parameters, --mask, --variables, --axes, --sample-axes, --lead and
/// --missing.
void declare_dataset_arguments(const Subcommand& command, DatasetArguments& arguments);

/// Throws ConfigError for what contradicts itself, as the configuration does.
data::DatasetOptions dataset_options(const DatasetArguments& arguments);

}  // namespace ddpm::cli
