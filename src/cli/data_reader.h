// What `ddpm data inspect` and `ddpm data verify` share: a dataset to read, and --json.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file_system.h"
#include "cli/command_line.h"
#include "cli/context.h"
#include "cli/dataset_arguments.h"
#include "data/dataset_options.h"
#include "data/survey.h"

namespace ddpm::cli {

struct ReaderArguments {
  base::Path path;
  DatasetArguments dataset;
  bool json = false;
  bool quick = false;  ///< inspect only, as is `all`
  bool all = false;
};

/// Declares the subcommand `name` of `data`, which calls `run`.
Subcommand declare_reader(const Subcommand& data, Command& command, const std::string& name, const std::string& help,
                          const std::shared_ptr<ReaderArguments>& arguments,
                          void (*run)(Context&, const ReaderArguments&));

/// How the dataset is opened. Collective.
data::DatasetOptions options_of(Context& context, const ReaderArguments& arguments);

/// Ends with what is wrong with the images, if anything is. Collective.
void require_usable(Context& context, const base::Path& path, const data::Survey& seen, int64_t count);

}  // namespace ddpm::cli
