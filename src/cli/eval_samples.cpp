#include "cli/eval_samples.h"

#include <algorithm>
#include <cfloat>
#include <memory>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/input_file.h"
#include "base/named.h"
#include "base/progress_report.h"
#include "cli/dataset_arguments.h"
#include "cli/eval_output.h"
#include "cli/lazy_bar.h"
#include "cli/ranges.h"
#include "comm/collectives.h"
#include "device/threads.h"
#include "eval/samples.h"

namespace ddpm::cli {
namespace {

constexpr int64_t kLongWork = 20;  // blocks: a part of fewer needs no bar

struct SamplesArguments {
  std::vector<base::Path> samples;
  std::vector<base::Path> others;
  base::Path data;
  base::Path held_out;
  base::Path extractor;
  std::optional<std::string> range;
  std::string metrics = fmt::format("{}", fmt::join(base::all_names<eval::SampleMetric>(), ","));
  eval::Units units = eval::Units::automatic;
  int threads = 1;
  eval::SamplesOptions options;
  std::string images = data::DatasetOptions{}.images;
  ResultArguments result;
};

/// Each of the words that --metrics lists, once.
std::vector<eval::SampleMetric> metrics_of(const std::string& text) {
  std::vector<eval::SampleMetric> metrics;
  for (const std::string& word : words_of(text)) {
    const auto metric = base::find_named<eval::SampleMetric>(word);
    if (!metric) {
      throw base::ConfigError("--metrics {}: '{}' is none; wanted: some of {}, with commas between", text, word,
                              fmt::join(base::all_names<eval::SampleMetric>(), ", "));
    }
    if (std::ranges::find(metrics, *metric) == metrics.end()) metrics.push_back(*metric);
  }
  if (metrics.empty()) throw base::ConfigError("--metrics {}: names none", text);
  return metrics;
}

/// "0..255"
eval::PixelRange range_of(const std::string& text) {
  eval::PixelRange range;
  const std::size_t dots = text.find("..");
  const NumberRange any{-FLT_MAX, FLT_MAX};
  const bool good = dots != std::string::npos && read_value(text.substr(0, dots), any, range.low).empty() &&
                    read_value(text.substr(dots + 2), any, range.high).empty() && range.low < range.high;
  if (good) return range;
  throw base::ConfigError("--extractor-range {}: wanted: the values of black and white, such as 0..255 or -1..1", text);
}

void check_drawing(Context& context, const base::Path& path, bool searches) {
  if (path.empty()) return;
  comm::do_on_root(context.session.world(), [&] {
    if (path.extension() != ".png") {
      throw base::ConfigError("--neighbours {}: wanted a file name that ends with .png", path.string());
    }
    if (!searches) throw base::ConfigError("--neighbours {}: --metrics leaves out neighbours", path.string());
    const base::Path folder = base::parent_of(base::plain_path(path));
    if (base::kind_of(folder) == base::FileKind::folder) return;
    throw base::OutputError("--neighbours {}: {} is not a folder", path.string(), folder.string());
  });
}

/// The sets, as long as they are open.
class OpenSets {
 public:
  OpenSets(comm::Communicator& world, const SamplesArguments& arguments)
      : world_(world), data_path_(arguments.data.string()) {
    data::DatasetOptions reading;
    reading.images = arguments.images;
    reading.said_by = data::KeyNames::options;
    sets.data = add(arguments.data, eval::Units::stored, reading);
    // Pictures that are held out hold what the data holds. Floats beside data of 8 bits are in the model's range.
    const auto of_held_out = sets.data->holds_bytes() ? eval::Units::automatic : eval::Units::stored;
    if (!arguments.held_out.empty()) sets.held_out = add(arguments.held_out, of_held_out, reading);
    for (const base::Path& path : arguments.samples) sets.samples.push_back(add_samples(path, arguments.units));
    for (const base::Path& path : arguments.others) sets.others.push_back(add_samples(path, arguments.units));
  }
  void close() {
    for (const auto& set : open_) set->close(world_);
  }

  eval::SampleSets sets;

 private:
  /// The first one is the data, whose names and transforms the others take over.
  const eval::SampleSet* add(const base::Path& path, eval::Units units, const data::DatasetOptions& reading = {}) {
    eval::SampleSet& opened = open(path, reading);
    if (sets.data != nullptr) settle(opened, units);
    return &opened;
  }
  const eval::SampleSet* add_samples(const base::Path& path, eval::Units units) {
    eval::SampleSet& opened = open(path, {});
    if (sets.of_scale.empty()) sets.of_scale = eval::scale_note(opened, *sets.data, units);
    settle(opened, units);
    return &opened;
  }
  eval::SampleSet& open(const base::Path& path, const data::DatasetOptions& reading) {
    open_.push_back(std::make_unique<eval::SampleSet>(eval::SampleSet::open(world_, path, reading)));
    return *open_.back();
  }
  void settle(eval::SampleSet& set, eval::Units units) {
    comm::agree(world_, [&] { set.as_stored_in(sets.data->variables(), sets.data->sides(), units, data_path_); });
  }

  comm::Communicator& world_;
  std::string data_path_;
  std::vector<std::unique_ptr<eval::SampleSet>> open_;
};

void run_samples(Context& context, SamplesArguments& arguments) {
  comm::Communicator& world = context.session.world();
  eval::SamplesOptions& options = arguments.options;
  device::start_threads(arguments.threads, context.session);
  comm::agree(world, [&] { options.metrics = metrics_of(arguments.metrics); });
  expect_result_place(context, arguments.result);
  check_drawing(context, options.drawing, options.wants(eval::SampleMetric::neighbours));
  context.enter("opening the sets");
  OpenSets open(world, arguments);
  std::unique_ptr<eval::FeatureMap> map;
  comm::agree(world, [&] {
    options.own_extractor = !arguments.extractor.empty();
    eval::expect_measurable(open.sets, options);
    const eval::PixelRange range = arguments.range ? range_of(*arguments.range) : eval::PixelRange{};
    const std::vector<int64_t>& sides = open.sets.data->sides();
    if (!options.wants_features()) return;
    map = options.own_extractor ? eval::load_extractor(arguments.extractor, range)
                                : eval::random_convolutions(
                                      {.height = sides[0], .width = sides[1], .channels = open.sets.data->channels()});
  });
  options.features = map.get();
  const eval::Reporting reporting{.enter = [&](const std::string& part) { context.enter(part); },
                                  .progress = [&](const std::string& part) -> base::ProgressReport {
                                    auto bar = std::make_shared<LazyBar>(part, context.log.speaks(), "block");
                                    return [bar](int64_t done, int64_t total) {
                                      if (total >= kLongWork) bar->update(done, total);
                                    };
                                  }};
  const eval::Result result = eval::evaluate_samples(world, open.sets, options, context.files, reporting);
  open.close();
  deliver(context, result, arguments.result);
}

void declare_features(const Subcommand& samples, SamplesArguments& a) {
  const Option extractor =
      samples.add("--extractor", &a.extractor,
                  "A TorchScript network from pictures [N, C, H, W] to features [N, D]; it is code, which is run. "
                  "Without it: built-in random convolutions");
  samples.add("--extractor-range", &a.range, "What it takes for black and white, such as 0..255; -1..1 if not set")
      .needs(extractor);
  samples
      .add("--manifold-neighbours", &a.options.neighbours, "Of precision, recall, density and coverage: k of a radius")
      .accept(image_counts(1))
      .show_default();
}

}  // namespace

void declare_eval_samples(const Subcommand& eval, Command& command) {
  const auto arguments = std::make_shared<SamplesArguments>();
  const Subcommand samples = eval.add_subcommand(
      "samples",
      "Pictures against those a model was trained on: moments, spectra, copies, Fréchet and kernel distance");
  samples
      .add("SAMPLES", &arguments->samples,
           "A dataset's folder, an .h5, an .npy, or a folder of pictures; several of them are one for each seed")
      .required();
  samples.add("--data", &arguments->data, "The training set: what `ddpm train` takes, or a folder of pictures")
      .required();
  samples.add("--against", &arguments->others, "Samples of another model, to compare with; again for each seed");
  samples.add("--held-out", &arguments->held_out,
              "Pictures like the data that the model was not trained on: what tells copies from likeness");
  samples.add("--metrics", &arguments->metrics, "What to measure, with commas between").show_default();
  samples.add("--most", &arguments->options.most, "Pictures of each set at most, evenly spread over it; 0: all")
      .accept(image_counts(0))
      .show_default();
  samples.add("--neighbours", &arguments->options.drawing,
              "A .png to draw: the samples (of the last set) nearest to training pictures, each beside that picture");
  declare_features(samples, *arguments);
  samples
      .add("--samples-hold", &arguments->units,
           "What the values of samples of floats are: as the data stores them, or as the model sees them")
      .show_default();
  samples
      .add("--threads", &arguments->threads, "Threads per rank; the last bits depend on it. 0: derived from its CPUs")
      .accept(thread_counts())
      .show_default();
  samples.add("--images", &arguments->images, "Of a bare .h5 file of the data: the name of the image array")
      .show_default();
  declare_result_arguments(samples, arguments->result);
  samples.on_chosen([arguments, &command] {
    command = {.run = [arguments](Context& context) { run_samples(context, *arguments); }, .shares_work = true};
  });
}

}  // namespace ddpm::cli
