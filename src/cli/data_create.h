// `ddpm data create`: making image sets.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "cli/context.h"
#include "cli/dataset_arguments.h"
#include "data/prepare/create.h"

namespace ddpm::cli {

/// Declares the subcommand `create` of `data`; when it is chosen it sets `command`.
void declare_data_create(const Subcommand& data, Command& command);

/// The option of all subcommands that write shards.
inline constexpr const char* kAlignOption = "--align";
inline constexpr const char* kAlignHelp =
    "Begin images, conditions and masks at multiples of so many bytes of a file, such as a stripe of a parallel file "
    "system: a multiple of 4096 up to 64 MiB";

// What `data create` and `data append` have in common.

/// The values of --crop and --format; unknown ones throw ConfigError.
data::prepare::Crop crop_named(const std::string& name);
void set_format(const std::string& name, data::prepare::SourceOptions& source);
/// The value of --labels, of which any other word than auto, folder and none is the name of an array.
void set_labels(const std::string& text, data::prepare::SourceOptions& source, data::prepare::ArrayOptions& arrays);
/// Where --variables composes the images of foreign files, says so in `arrays`. Throws ConfigError for options that
/// contradict each other.
void set_composed(const ComposingArguments& composing, data::prepare::ArrayOptions& arrays);
/// Describes the parts of the source that are not in the set in `dataset`.
void say_what_is_missing(const base::Logger& log, const base::Path& dataset, const data::prepare::CreateResult& result);
/// Options that name arrays by their roles, as they are in an HDF5 or .npz file; beside a .npy file they are .npy
/// files, too. With --variables they are lists of variables.
void add_array_names(const Subcommand& command, data::prepare::ArrayOptions& arrays, ComposingArguments& composing);

}  // namespace ddpm::cli
