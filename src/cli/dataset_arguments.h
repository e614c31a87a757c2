// Options of subcommands that open a dataset: which arrays or variables of a file they mean, as the keys of [data] say
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "data/config.h"
#include "data/dataset_options.h"

namespace ddpm::cli {

/// The words of a list with commas between, without the spaces around them.
std::vector<std::string> words_of(std::string_view text);

/// How the images of foreign files are composed. It has to live as long as the command line.
struct ComposingArguments {
  std::string variables = {};  ///< separated by commas, as are the next two
  std::string axes = {};
  std::string sample_axes = {};
  int64_t lead = 0;
  data::Missing missing = data::Missing::refuse;

  friend bool operator==(const ComposingArguments&, const ComposingArguments&) = default;
};

/// Adds --variables, --axes, --sample-axes, --lead and --missing.
void declare_composing_arguments(const Subcommand& command, ComposingArguments& arguments);

/// What a command line says of a dataset. It has to live as long as the command line.
struct DatasetArguments {
  data::DatasetOptions values = data::DataConfig{}.reading;  ///< what has an option of its own
  ComposingArguments composing = {};
};

/// Adds --images, --labels, --condition, --static, --parameters, --mask, and the composing ones.
void declare_dataset_arguments(const Subcommand& command, DatasetArguments& arguments);

/// Throws ConfigError for what contradicts itself, as the configuration does.
data::DatasetOptions dataset_options(const DatasetArguments& arguments);

}  // namespace ddpm::cli
