#include "cli/data_change.h"

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "cli/data_create.h"
#include "cli/lazy_bar.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "comm/collectives.h"
#include "data/prepare/append.h"

namespace ddpm::cli {
namespace {

using base::counted;

struct AppendArguments {
  data::prepare::AppendOptions options;
  std::string crop = "center";
  std::string format = "auto";
  std::string labels = "auto";
  ComposingArguments composing;
  bool json = false;
};

void run_append(Context& context, AppendArguments arguments) {
  const auto began = base::Clock::now();
  auto& options = arguments.options;
  comm::agree(context.session.world(), [&] {
    options.crop = crop_named(arguments.crop);
    set_format(arguments.format, options.source);
    set_labels(arguments.labels, options.source, options.arrays);
    set_composed(arguments.composing, options.arrays);
  });
  const auto result = [&] {
    LazyBar bar("data append", context.log.speaks());
    return data::prepare::append(context.session.world(), context.files, context.log, options,
                                 [&](const auto& progress) { bar.update(progress.done, progress.total); });
  }();
  const std::string dataset = options.dataset.string();
  say_what_is_missing(context.log, options.dataset, result.added);
  if (arguments.json) {
    print(context, dump({{"dataset", dataset},
                         {"images", result.images},
                         {"added", result.added.images},
                         {"skipped", result.added.skipped},
                         {"shards", result.shards},
                         {"added_shards", result.added.shards},
                         {"reused_shards", result.added.reused_shards},
                         {"seconds", base::seconds_since(began)}}));
    return;
  }
  print(context, fmt::format("{}: {} added in {}, {} now in {}, {:.1f} s", dataset,
                             counted(result.added.images, "image"), counted(result.added.shards, "shard"),
                             result.images, counted(result.shards, "shard"), base::seconds_since(began)));
}

struct DataReshardArguments {
  base::Path dataset;
  data::prepare::ReshardOptions options;
  bool json = false;
};

void run_data_reshard(Context& context, const DataReshardArguments& arguments) {
  const auto began = base::Clock::now();
  const auto result = [&] {
    LazyBar bar("data reshard", context.log.speaks());
    return data::prepare::reshard(context.session.world(), context.files, arguments.dataset, arguments.options,
                                  [&](const auto& progress) { bar.update(progress.done, progress.total); });
  }();
  const std::string output = arguments.options.output.string();
  if (arguments.json) {
    print(context, dump({{"dataset", output},
                         {"images", result.images},
                         {"shards", result.shards},
                         {"reused_shards", result.reused_shards},
                         {"bytes", result.bytes},
                         {"seconds", base::seconds_since(began)}}));
    return;
  }
  print(context, fmt::format("{}: {} in {}, {:.1f} s", output, counted(result.images, "image"),
                             counted(result.shards, "shard"), base::seconds_since(began)));
}

}  // namespace

void declare_data_append(const Subcommand& data, Command& command) {
  const Subcommand append =
      data.add_subcommand("append", "Put further images behind those of a dataset, as new shards");
  append.footer("Readers see the old set or the new one. After an interruption the same command continues.");
  auto arguments = std::make_shared<AppendArguments>();
  auto& options = arguments->options;
  append.add("DATASET", &options.dataset, "The dataset's folder").required();
  append.add("SOURCE", &options.source.paths, "What `data create` takes, with the dataset's fields").required();
  append.add("--format", &arguments->format, "As of `data create`").show_default();
  append.add("--crop", &arguments->crop, "Of pictures: center, random, or none: squash to the dataset's size")
      .show_default();
  append.add("--seed", &options.seed, "Seed of the random crop").accept(SeedRange{}).show_default();
  append.add("--shards", &options.shards, "Number of new files, which is also the most ranks that can work")
      .show_default();
  append.add("--labels", &arguments->labels, "As of `data create`; class names have to be those of the dataset")
      .show_default();
  add_array_names(append, options.arrays, arguments->composing);
  add_json_flag(append, arguments->json);
  append.on_chosen([&command, arguments] {
    command = {.run = [arguments](Context& context) { run_append(context, *arguments); }, .shares_work = true};
  });
}

void declare_data_reshard(const Subcommand& data, Command& command) {
  const Subcommand reshard = data.add_subcommand("reshard", "Write a dataset as another number of shards");
  auto arguments = std::make_shared<DataReshardArguments>();
  reshard.add("DATASET", &arguments->dataset, "The dataset's folder").required();
  auto& options = arguments->options;
  reshard.add("--output", &options.output, "The new dataset's folder; it must not exist").required();
  reshard.add("--shards", &options.shards, "Number of files, which is also the most ranks that can work")
      .show_default();
  reshard.add(kAlignOption, &options.alignment, std::string(kAlignHelp) + "; without it, as in DATASET");
  add_json_flag(reshard, arguments->json);
  reshard.on_chosen([&command, arguments] {
    command = {.run = [arguments](Context& context) { run_data_reshard(context, *arguments); }, .shares_work = true};
  });
}

}  // namespace ddpm::cli
