#include "cli/data_reader.h"

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "cli/output.h"
#include "comm/collectives.h"
#include "device/threads.h"

namespace ddpm::cli {

Subcommand declare_reader(const Subcommand& data, Command& command, const std::string& name, const std::string& help,
                          const std::shared_ptr<ReaderArguments>& arguments,
                          void (*run)(Context&, const ReaderArguments&)) {
  const Subcommand reader = data.add_subcommand(name, help);
  reader
      .add("DATASET", &arguments->path,
           "A dataset's folder, one HDF5 or NetCDF-4 file, or files by a pattern in quotes")
      .required();
  add_json_flag(reader, arguments->json);
  declare_dataset_arguments(reader, arguments->dataset);
  reader.on_chosen(
      [&command, arguments, run] { command.run = [arguments, run](Context& context) { run(context, *arguments); }; });
  return reader;
}

data::DatasetOptions options_of(Context& context, const ReaderArguments& arguments) {
  data::DatasetOptions options;
  comm::agree(context.session.world(), [&] { options = dataset_options(arguments.dataset); });
  options.threads = device::threads_per_rank(0, context.session.local_size());
  return options;
}

void require_usable(Context& context, const base::Path& path, const data::Survey& seen, int64_t count) {
  comm::do_on_root(context.session.world(), [&] {
    if (seen.unusable == 0) return;
    const auto unnamed = seen.unusable - std::ssize(seen.faults);
    throw base::DatasetError("{}: {} of {}{} cannot be used: {}{}", path.string(), seen.unusable,
                             base::counted(seen.images, "image"), seen.images < count ? " looked at" : "",
                             fmt::join(seen.faults, "; "), unnamed > 0 ? fmt::format("; and {} more", unnamed) : "");
  });
}

}  // namespace ddpm::cli
