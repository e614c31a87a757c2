#include "cli/dataset_arguments.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/named.h"
#include "base/shortened.h"
#include "data/variable_request.h"

namespace ddpm::cli {
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = data::end_of_item(text);
    parts.emplace_back(base::trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

void declare_composing_arguments(const Subcommand& command, ComposingArguments& arguments) {
  command.add("--variables", &arguments.variables,
              "Variables of HDF5 or NetCDF-4 files of which the images are composed, separated by commas; see "
              "data.variables of the configuration, as for the next ones");
  command.add("--axes", &arguments.axes, "Names of the images' axes, height before width, separated by commas");
  command.add("--sample-axes", &arguments.sample_axes, "Names of the axes along which images follow each other");
  command
      .add("--lead", &arguments.lead,
           "Pairs that are so many places apart: the earlier one is the later one's condition")
      .accept(IntegerRange{.min = 0, .max = int64_t{1} << 30});
  command.add("--missing", &arguments.missing, "What becomes of images with missing values").show_default();
}

void declare_dataset_arguments(const Subcommand& command, DatasetArguments& arguments) {
  data::DatasetOptions& values = arguments.values;
  command.add("--images", &values.images, "Of a bare .h5 file: the name of the image array").show_default();
  command
      .add("--labels", &values.labels,
           "Of a bare .h5 file: the name of the label array; beside --variables that of a variable; \"\": none")
      .show_default();
  declare_composing_arguments(command, arguments.composing);
  command.add("--condition", &values.condition, "Array or variables that images are drawn given");
  command.add("--static", &values.static_values, "Array or variables that are given with every image");
  command.add("--parameters", &values.parameters, "Array or variables of numbers that are given with each image");
  command.add("--mask", &values.mask, "Array or variable that is 1 where images are valid and 0 elsewhere");
}

data::DatasetOptions dataset_options(const DatasetArguments& arguments) {
  data::DatasetOptions options = arguments.values;
  const ComposingArguments& composing = arguments.composing;
  options.variables = words_of(composing.variables);
  options.axes = words_of(composing.axes);
  options.sample_axes = words_of(composing.sample_axes);
  options.lead = composing.lead;
  options.missing = composing.missing;
  options.said_by = data::KeyNames::options;
  data::validate(options);
  return options;
}

}  // namespace ddpm::cli
