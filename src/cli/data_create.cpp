#include "cli/data_create.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "cli/lazy_bar.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "cli/sides.h"
#include "comm/collectives.h"
#include "data/fit_transforms.h"
#include "data/prepare/create.h"
#include "data/prepare/endings.h"
#include "data/prepare/split.h"

namespace ddpm::cli {
namespace {

using base::counted;

struct CreateArguments {
  data::prepare::CreateOptions options;
  std::string size = "64";
  std::string crop = "center";
  std::string format = "auto";
  std::string labels = "auto";
  std::string max_bad;
  std::string validation_share = "0%";
  ComposingArguments composing;
  bool json = false;
};

/// The value that is called `name`.
template <base::Named E>
E value_of(const char* option, const std::string& name) {
  if (const auto found = base::find_named<E>(name)) return *found;
  const std::vector<std::string> names = base::all_names<E>();
  throw base::ConfigError("{} {}: unknown, wanted {} or {}", option, name,
                          fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

/// "64" is a square, "64x128" a height and a width.
data::prepare::Sides stored_sides(const std::string& size) {
  const std::vector<int64_t> sides = sides_of("--size", size, data::prepare::kMostPictureSide);
  if (sides.size() > 2) {
    throw base::ConfigError("--size {}: {} sides, wanted one for a square, or height and width", size, sides.size());
  }
  return {.height = static_cast<int>(sides.front()), .width = static_cast<int>(sides.back())};
}

void run_create(Context& context, CreateArguments arguments) {
  const auto began = base::Clock::now();
  auto& options = arguments.options;
  comm::agree(context.session.world(), [&] {
    options.fit.sides = stored_sides(arguments.size);
    options.fit.crop = crop_named(arguments.crop);
    set_format(arguments.format, options.source);
    set_labels(arguments.labels, options.source, options.arrays);
    set_composed(arguments.composing, options.arrays);
    if (!arguments.max_bad.empty()) options.max_bad = data::prepare::BadLimit(arguments.max_bad);
    options.validation_percent = data::prepare::percentage("--validation-share", arguments.validation_share);
  });
  const auto result = [&] {
    LazyBar bar("data create", context.log.speaks());
    return data::prepare::create(context.session.world(), context.files, context.log, options,
                                 [&](const auto& progress) { bar.update(progress.done, progress.total); });
  }();
  const double seconds = base::seconds_since(began);
  const std::string output = options.output.string();
  say_what_is_missing(context.log, options.output, result);
  if (!arguments.json) {
    const std::string reused =
        result.reused_shards > 0 ? fmt::format(" ({} from an earlier run)", result.reused_shards) : "";
    const base::Path validation = options.output / data::prepare::kValidationFolder;
    const std::string apart =
        result.validation_images > 0
            ? fmt::format(", {} of them in {}", base::grouped(result.validation_images), validation.string())
            : "";
    const data::ImageFormat image = result.images_field().format();
    print(context, fmt::format("{}: {} of {} x {}{} in {}{}{}, {} left out, {:.1f} s", output,
                               counted(result.images, "image"), fmt::join(image.sides(), " x "), image.channels,
                               image.dtype == base::DType::f32 ? " float32" : "", counted(result.shards, "shard"),
                               reused, apart, result.skipped, seconds));
    return;
  }
  print(context, dump({{"dataset", output},
                       {"images", result.images},
                       {"validation_images", result.validation_images},
                       {"dtype", data::numpy_name(result.images_field().dtype)},
                       {"skipped", result.skipped},
                       {"other_files", result.other_files},
                       {"classes", result.classes},
                       {"shards", result.shards},
                       {"reused_shards", result.reused_shards},
                       {"bytes", result.bytes},
                       {"seconds", seconds}}));
}

/// What is recorded of arrays.
void add_array_records(const Subcommand& create, data::prepare::ArrayOptions& arrays) {
  create.add("--names", &arrays.names, "Names of the images' channels, then of others: \"t2m,u10; condition: sst\"");
  create.add("--units", &arrays.units, "Their units, alike: \"K,m/s; condition: K\"");
  create.add("--transform", &arrays.transforms,
             fmt::format("What the model sees of float32 values: {}, for all or as in \"t2m=standardize,precip=log1p\"",
                         fmt::join(names_of(data::TransformKind{}), ", ")));
}

}  // namespace

data::prepare::Crop crop_named(const std::string& name) { return value_of<data::prepare::Crop>("--crop", name); }

void set_format(const std::string& name, data::prepare::SourceOptions& source) {
  source.format = value_of<data::prepare::SourceFormat>("--format", name);
}

void set_labels(const std::string& text, data::prepare::SourceOptions& source, data::prepare::ArrayOptions& arrays) {
  const auto labels = base::find_named<data::prepare::Labels>(text);
  if (labels) source.labels = *labels;
  if (!labels) arrays.labels = text;
}

void set_composed(const ComposingArguments& composing, data::prepare::ArrayOptions& arrays) {
  if (composing == ComposingArguments{}) return;
  DatasetArguments arguments{.composing = composing};
  data::DatasetOptions& values = arguments.values;
  values.condition = arrays.condition;
  values.static_values = arrays.static_values;
  values.parameters = arrays.parameters;
  values.mask = arrays.mask;
  if (!arrays.images.empty()) values.images = arrays.images;
  if (!arrays.labels.empty()) values.labels = arrays.labels;
  arrays.composed = dataset_options(arguments);
}

/// Describes the parts of the source that are not in the set.
void say_what_is_missing(const base::Logger& log, const base::Path& output, const data::prepare::CreateResult& result) {
  if (result.skipped > 0) {
    const bool one = result.skipped == 1;
    log.warn("{} {} left out and {} listed in {}; the first is {}", counted(result.skipped, "image"),
             one ? "was" : "were", one ? "is" : "are", (output / "skipped.jsonl").string(), result.first_skipped);
  }
  if (result.other_files.empty()) return;
  log.info("{} passed over, {} are read: {}", counted(data::prepare::total(result.other_files), "other file"),
           data::prepare::kReadFormats, data::prepare::to_text(result.other_files));
}

void add_array_names(const Subcommand& command, data::prepare::ArrayOptions& arrays, ComposingArguments& composing) {
  command.add("--images", &arrays.images, "Name of the array of images in an HDF5 or .npz file (default: images)");
  command.add("--condition", &arrays.condition, "Array that images are drawn given; beside a .npy file another one");
  command.add("--static", &arrays.static_values, "Array that is given with all images, once per set");
  command.add("--parameters", &arrays.parameters, "Array of numbers that are given with each image");
  command.add("--mask", &arrays.mask, "Array that is 1 where images are valid, of each one or once per set");
  declare_composing_arguments(command, composing);
}

void declare_data_create(const Subcommand& data, Command& command) {
  const Subcommand create =
      data.add_subcommand("create", "Make a dataset from pictures, archives, IDX (MNIST) or CIFAR files, or arrays");
  auto arguments = std::make_shared<CreateArguments>();
  auto& options = arguments->options;
  create
      .add("SOURCE", &options.source.paths,
           "Folder with PNG, JPEG, WebP and TIFF files at any depth, or with the files of MNIST or CIFAR: their "
           "training part; a list of pictures (.txt, .tsv: PATH or PATH<tab>LABEL on each line); archives of pictures "
           "(tar as WebDataset has it, zip), IDX or CIFAR files; .npy, .npz, HDF5 or NetCDF-4 files, or "
           "datasets: in this order")
      .required();
  create.add("--output", &options.output, "The dataset's folder; it must not exist").required();
  create.add("--format", &arguments->format, "auto, folder (of pictures), list, archive, idx, cifar10 or cifar100")
      .show_default();
  create.add("--size", &arguments->size, "Side of the square images in pixels, or HEIGHTxWIDTH").show_default();
  create.add("--crop", &arguments->crop, "center, random, or none: squash to the size").show_default();
  create.add("--shards", &options.shards, "Number of files, which is also the most ranks that can work").show_default();
  create.add(kAlignOption, &options.alignment, kAlignHelp);
  create.add("--channels", &options.channels, "3 (RGB) or 1 (grey)").show_default();
  create
      .add("--labels", &arguments->labels,
           "auto: those of the files; folder: the top-level folder is the class; none; or the name of an array")
      .show_default();
  create.add("--seed", &options.fit.seed, "Seed of the random crop").accept(SeedRange{}).show_default();
  create.add("--max-bad", &arguments->max_bad,
             "End with exit code 3 when more pictures than that cannot be used: a number, or a percentage of all "
             "such as 0.5%; without it any number is left out");
  create
      .add("--validation-share", &arguments->validation_share,
           "Make of this share of the pictures, told by a hash of their names, a set of its own in OUTPUT/validation")
      .show_default();
  add_array_names(create, options.arrays, arguments->composing);
  add_array_records(create, options.arrays);
  add_json_flag(create, arguments->json);
  create.on_chosen([&command, arguments] {
    command = {.run = [arguments](Context& context) { run_create(context, *arguments); }, .shares_work = true};
  });
}

}  // namespace ddpm::cli
