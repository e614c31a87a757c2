#include "cli/eval_loss.h"

#include <memory>
#include <optional>
#include <vector>

#include "base/named.h"
#include "cli/dataset_arguments.h"
#include "cli/eval_output.h"
#include "cli/lazy_bar.h"
#include "cli/model_options.h"
#include "cli/ranges.h"
#include "comm/collectives.h"
#include "denoise/adapter_base.h"
#include "device/choose_device.h"
#include "device/host_memory.h"
#include "device/threads.h"
#include "eval/loss.h"

namespace ddpm::cli {
namespace {

constexpr int64_t kMostLevels = 1000;

struct LossArguments {
  std::vector<base::Path> models;
  std::string weights;
  std::vector<base::Path> others;
  std::string other_weights;
  std::optional<std::string> adapter_base;
  device::DeviceChoice device = device::DeviceChoice::automatic;
  int threads = 1;
  eval::LossOptions options;
  DatasetArguments dataset;
  ResultArguments result;
};

/// How the data is read, where the command line says anything of it.
std::optional<data::DatasetOptions> asked_reading(const DatasetArguments& arguments) {
  const data::DatasetOptions asked = dataset_options(arguments);
  return asked == dataset_options(DatasetArguments{}) ? std::nullopt : std::optional(asked);
}

void run_loss(Context& context, LossArguments& arguments) {
  comm::Communicator& world = context.session.world();
  eval::LossOptions& options = arguments.options;
  comm::agree(world, [&] { options.reading = asked_reading(arguments.dataset); });
  expect_result_place(context, arguments.result);
  options.device = device::choose_device(arguments.device, context.session, context.log);
  device::set_up_host_memory(device::FreedMemory::kept);
  device::start_threads(arguments.threads, context.session);
  context.enter("loading the model");
  const auto load = [&](const std::vector<base::Path>& paths, const std::string& weights, const char* weights_option) {
    eval::LossSide side;
    for (const base::Path& path : paths) {
      side.models.push_back(
          eval::load_loss_model(path, weights, context, options.device,
                                {.weights_option = weights_option, .adapter_base = arguments.adapter_base}));
    }
    return side;
  };
  eval::LossSide models = load(arguments.models, arguments.weights, "--weights");
  eval::LossSide others = load(arguments.others, arguments.other_weights, "--against-weights");
  comm::agree(world, [&] {
    bool adapted = false;
    for (const eval::LossSide* side : {&models, &others}) {
      for (const eval::LossModel& model : side->models) {
        const eval::LossModel& first = models.models.front();
        if (&model != &first) eval::expect_same_loss(first, model, side == &models ? "--model" : "--against");
        adapted = adapted || model.model.adapters;
      }
    }
    denoise::expect_use_of_base(arguments.adapter_base, adapted, arguments.models.front());
  });
  for (eval::LossSide* side : {&models, &others}) {
    for (const eval::LossModel& model : side->models) {
      context.enter("the losses of " + model.path);
      device::choose_inference_kernels(options.device, model.model.allow_tf32);
      LazyBar bar("eval loss", context.log.speaks(), "batch");
      side->losses.push_back(
          eval::measure_losses(model, options, context, [&](int64_t done, int64_t total) { bar.update(done, total); }));
    }
  }
  eval::Result result;
  comm::agree(world, [&] { result = eval::loss_result(models, others, options); });
  deliver(context, result, arguments.result);
}

void declare_work(const Subcommand& loss, LossArguments& a) {
  loss.add("--count", &a.options.count, "The first so many images of the data; 0: all")
      .accept(image_counts(0))
      .show_default();
  loss.add("--levels", &a.options.levels,
           "Noise levels that each image is shown at: the middles of equal shares of those of training")
      .accept(IntegerRange{1, kMostLevels})
      .show_default();
  loss.add("--seed", &a.options.seed, "The noise of image i at level k is a function of (seed, i, k)")
      .accept(SeedRange{})
      .show_default();
  loss.add("--batch", &a.options.batch, "Images per rank and forward pass; the last bits depend on it")
      .accept(image_counts(1))
      .show_default();
  loss.add("--device", &a.device, "Where to compute").show_default();
  loss.add("--threads", &a.threads, "Threads per rank; the last bits depend on it. 0: derived from its CPUs")
      .accept(thread_counts())
      .show_default();
}

}  // namespace

void declare_eval_loss(const Subcommand& eval, Command& command) {
  const auto arguments = std::make_shared<LossArguments>();
  const Subcommand loss =
      eval.add_subcommand("loss", "The loss of a model on held-out images, by noise level, quartile and variable");
  loss.add("--model", &arguments->models,
           "A run, a checkpoint, or a diffusers model folder; or several, such as one of each seed, whose mean is told")
      .required();
  loss.add("--weights", &arguments->weights, kWeightsHelp);
  loss.add("--base", &arguments->adapter_base, kBaseHelp);
  const Option against =
      loss.add("--against", &arguments->others,
               "Another model with the same loss, or several: compared on the same images and noise");
  loss.add("--against-weights", &arguments->other_weights, "Which weights of --against, as for --weights")
      .needs(against);
  loss.add("--data", &arguments->options.data, "Images that the model was not trained on: what data.validation takes")
      .required();
  declare_work(loss, *arguments);
  declare_dataset_arguments(loss, arguments->dataset);
  declare_result_arguments(loss, arguments->result);
  loss.on_chosen([arguments, &command] {
    command = {.run = [arguments](Context& context) { run_loss(context, *arguments); }, .shares_work = true};
  });
}

}  // namespace ddpm::cli
