#include "cli/data_stats.h"

#include <memory>
#include <vector>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "cli/data_stats_output.h"
#include "cli/dataset_arguments.h"
#include "cli/lazy_bar.h"
#include "cli/output.h"
#include "comm/collectives.h"
#include "data/standardize.h"
#include "device/threads.h"

namespace ddpm::cli {
namespace {

struct StatsArguments {
  std::vector<base::Path> paths;
  data::FieldStatisticsOptions options;
  DatasetArguments dataset;
  bool json = false;
};

std::vector<data::Dataset::Source> sources_of(const StatsArguments& arguments) {
  std::vector<data::Dataset::Source> sources;
  for (const base::Path& path : arguments.paths) sources.push_back({.path = path});
  return sources;
}

/// Ends with what is wrong with the images, if anything is. Collective.
void require_undamaged(Context& context, const std::string& path, const std::vector<data::FieldStatistics>& fields) {
  comm::agree(context.session.world(), [&] {
    for (const data::FieldStatistics& field : fields) {
      if (field.unusable == 0) continue;
      const int64_t unnamed = field.unusable - std::ssize(field.faults);
      throw base::DatasetError("{}: {} of {} read cannot be used: {}{}", path, field.unusable,
                               base::counted(field.images, "image"), fmt::join(field.faults, "; "),
                               unnamed > 0 ? fmt::format("; and {} more", unnamed) : "");
    }
  });
}

void run_stats(Context& context, const StatsArguments& arguments) {
  auto& world = context.session.world();
  data::DatasetOptions arrays;
  comm::agree(world, [&] { arrays = dataset_options(arguments.dataset); });
  arrays.threads = device::threads_per_rank(0, context.session.local_size());
  data::Dataset dataset = data::Dataset::open(world, sources_of(arguments), arrays);
  const bool transformed = arguments.options.transformed;
  // Parameters are standardised by what the set holds.
  if (transformed) data::settle_transforms(world, dataset, data::Normalize::none);
  context.enter("reading the images");
  const auto fields = [&] {
    LazyBar bar("data stats", context.log.speaks());
    return data::field_statistics(world, dataset, arguments.options,
                                  [&](int64_t done, int64_t total) { bar.update(done, total); });
  }();
  print(context,
        arguments.json ? dump(stats_json(dataset, fields, transformed)) : stats_text(dataset, fields, transformed));
  const std::string path = dataset.path().string();
  dataset.close(world);
  require_undamaged(context, path, fields);
}

}  // namespace

void declare_data_stats(const Subcommand& data, Command& command) {
  constexpr int64_t kMostBins = 65'536;
  const Subcommand stats =
      data.add_subcommand("stats", "Moments, quantiles, histogram and power spectrum of every variable");
  const auto arguments = std::make_shared<StatsArguments>();
  stats
      .add("DATASET", &arguments->paths,
           "A dataset's folder, HDF5 or NetCDF-4 file, or several that hold the same fields")
      .required();
  stats
      .add("--most", &arguments->options.most_images, "Read so many images at most, evenly spread over the set; 0: all")
      .accept(IntegerRange{0, int64_t{1} << 31})
      .show_default();
  stats.add("--bins", &arguments->options.bins, "Bins of a float32 variable's histogram; uint8 always has 256")
      .accept(IntegerRange{1, kMostBins})
      .show_default();
  stats.add_flag("--transformed", arguments->options.transformed,
                 "What the model sees: values after their variable's transform, not as they are stored");
  declare_dataset_arguments(stats, arguments->dataset);
  add_json_flag(stats, arguments->json);
  stats.on_chosen(
      [&command, arguments] { command.run = [arguments](Context& context) { run_stats(context, *arguments); }; });
}

}  // namespace ddpm::cli
