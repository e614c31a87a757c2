#include "cli/sample.h"

#include <algorithm>
#include <cfloat>

#include <ATen/Parallel.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "base/product.h"
#include "base/sha256.h"
#include "cli/model_options.h"
#include "cli/ranges.h"
#include "cli/sample_noise.h"
#include "cli/sample_output.h"
#include "cli/sample_tiles.h"
#include "cli/sides.h"
#include "comm/collectives.h"
#include "data/growing_folder.h"
#include "denoise/adapter_base.h"
#include "denoise/class_label.h"
#include "denoise/load_model.h"
#include "denoise/sample_dataset.h"
#include "denoise/sample_to_dataset.h"
#include "denoise/sampling.h"
#include "denoise/stored_images.h"
#include "device/choose_device.h"
#include "device/host_memory.h"
#include "device/threads.h"
#include "diffusion/samplers.h"
#include "diffusion/scheduler_json.h"
#include "train/config.h"

namespace ddpm::cli {
namespace {

constexpr double kMaxChurn = 1e6;
constexpr double kMaxGuidance = 1000.0;

/// What a folder holds.
enum class FolderFormat : uint8_t { png, dataset };
constexpr auto names_of(FolderFormat /*type*/) { return std::to_array<std::string_view>({"png", "dataset"}); }

/// In which the model computes.
enum class SamplePrecision : uint8_t { no, bf16 };
constexpr auto names_of(SamplePrecision /*type*/) { return std::to_array<std::string_view>({"no", "bf16"}); }

struct SampleArguments {
  std::string model;
  std::string weights;
  std::optional<std::string> adapter_base;
  std::string output;
  std::string initial_noise;
  std::string guidance_model;
  std::string guidance_weights;
  std::string parameters;
  std::optional<std::string> size;
  std::vector<int64_t> sides;  ///< which it names
  std::optional<std::string> spatial_size;
  std::optional<int64_t> overlap;
  std::optional<diffusion::SamplerType> scheduler;
  std::optional<std::string> class_label;
  device::DeviceChoice device = device::DeviceChoice::automatic;
  std::optional<int64_t> steps;
  std::optional<int64_t> count;
  int threads = 0;
  OutputOptions result;
  FolderFormat format = FolderFormat::png;
  SamplePrecision precision = SamplePrecision::no;
  denoise::SampleInputOptions inputs;
  denoise::SamplingOptions sampling;

  [[nodiscard]] bool makes_dataset() const { return format == FolderFormat::dataset; }
};

constexpr int64_t kDefaultImages = 16;

/// --count, or all that conditions and members make, or 16.
int64_t image_count(const SampleArguments& options, const denoise::SampleInputs& inputs) {
  const int64_t most = inputs.samples();
  if (!options.count) return most > 0 ? most : kDefaultImages;
  if (most > 0 && *options.count > most) {
    throw base::ConfigError("--count {}: {} and --members {} make {}", *options.count, options.inputs.dataset,
                            options.inputs.members, base::counted(most, "image"));
  }
  return *options.count;
}

void check_format(const SampleArguments& options, const base::FileSystem& files) {
  const base::Path ending = base::Path(options.output).extension();
  if (options.result.columns > 0 && (options.makes_dataset() || ending != ".png")) {
    throw base::ConfigError("--columns {}: --output {} is not a grid; wanted: the name of a .png file",
                            options.result.columns, options.output);
  }
  if (options.makes_dataset() && names_file(options.output)) {
    throw base::ConfigError("--format dataset: --output {} is the name of a file; a folder's is wanted",
                            options.output);
  }
  if (options.makes_dataset() && options.spatial_size) {
    throw base::ConfigError(
        "--spatial-size {}: --format dataset deals whole images to ranks; wanted: the name of an .h5 file, which is a "
        "dataset, too",
        *options.spatial_size);
  }
  // An output that exists may be this command's own: whether it is, is seen once the model is loaded.
  const base::Path output = base::plain_path(options.output);
  if (options.makes_dataset() && !data::GrowingFolder::tells_command(files, output)) {
    data::GrowingFolder::refuse_existing(files, output);
  }
}

/// Loads a model for sampling.
denoise::LoadedModel load(const std::string& path, const std::string& weights, const char* weights_option,
                          const SampleArguments& options, Context& context, at::Device device) {
  denoise::LoadedModel model = denoise::load_model(
      path, weights, train::read_run_model, context, device,
      {.weights_option = weights_option, .adapter_base = options.adapter_base, .sides = options.sides});
  denoise::prepare_for_sampling(model, options.precision == SamplePrecision::bf16 ? at::kBFloat16 : at::kFloat);
  return model;
}

/// Text of what --format dataset writes depends on, and which only the command line knows.
std::string settings_of(const SampleArguments& options, int threads, at::Device device) {
  const std::string noise = options.initial_noise.empty() ? "" : base::sha256_file(options.initial_noise);
  const auto spacing = options.sampling.sampler.timestep_spacing;
  std::string settings =
      fmt::format("precision {} threads {} device {} noise {} spacing {}", base::name_of(options.precision), threads,
                  device.str(), noise, spacing ? base::name_of(*spacing) : "");
  if (options.sampling.overlap)
    settings += fmt::format(" size {} overlap {}", *options.size, *options.sampling.overlap);
  return settings;
}

void write_images(const SampleArguments& options, denoise::BatchSampler& sampler, const layout::Mesh& mesh,
                  SampleOutput* output, Context& context) {
  context.enter("making the images");
  denoise::sample_images(
      sampler, options.sampling, [&](int64_t first, const at::Tensor& images) { output->append(first, images); }, mesh,
      context);
  context.enter("writing the output");
  comm::agree(context.session.world(), [&] {
    if (output != nullptr) output->finish();
  });
  context.log.info("{} written", options.output);
}

/// A regression draws nothing at random: its answer to a condition is one.
void expect_random(const SampleArguments& options, const denoise::LoadedModel& model) {
  if (diffusion::formulation_of(model.scheduler, model.scheduler_origin) != diffusion::Formulation::regression) return;
  if (options.inputs.members > 1) {
    throw base::ConfigError("--members {}: the model is a regression, which has one answer to a condition; wanted: 1",
                            options.inputs.members);
  }
  if (!options.initial_noise.empty()) {
    throw base::ConfigError(
        "--initial-noise {}: the model is a regression, which starts from none; wanted: no such option",
        options.initial_noise);
  }
}

void say_guidance(const SampleArguments& options, const denoise::LoadedModel& model,
                  const denoise::SampleInputs& inputs, const Context& context) {
  if (const denoise::LoadedModel* weak = options.sampling.weak) {
    context.log.info("guided by {} ({})", options.guidance_model, weak->description);
  }
  if (const std::optional<int64_t> null = inputs.presumed_null_class()) {
    context.log.info("guided from {}, taken for the null class",
                     denoise::described_class(*null, model.image.class_names));
  }
}

/// Makes the sampler, and draws all images.
void draw(SampleArguments& options, denoise::LoadedModel& model, const denoise::SampleInputs& inputs, Context& context,
          at::Device device) {
  comm::Communicator& world = context.session.world();
  const data::ImageFormat image = model.image.format(model.unet->config().out_channels, base::DType::f32);
  std::optional<device::DataParallelDevice> together;
  if (options.spatial_size) together.emplace(device, context.session);
  const SampleTiles tiles(options.spatial_size, model, options.sampling.weak, world,
                          together ? together->communicator() : world, device);
  const nn::Partition& tile = *tiles.pair().model;
  diffusion::SamplerOptions& sampler = options.sampling.sampler;
  denoise::NoiseSource noise = denoise::seeded_noise(options.sampling.seed, model, tile, device);
  std::unique_ptr<SampleOutput> output;
  std::unique_ptr<diffusion::Sampler> chosen;
  std::string settings;
  comm::agree(world, [&] {
    sampler.scheduler = options.scheduler.value_or(
        diffusion::default_sampler(diffusion::formulation_of(model.scheduler, model.scheduler_origin)));
    const auto scheduler = diffusion::read_scheduler(model.scheduler, sampler.scheduler, model.scheduler_origin);
    sampler.steps = options.steps.value_or(diffusion::default_steps(sampler.scheduler, scheduler));
    expect_random(options, model);
    if (options.spatial_size) expect_drawable_in_tiles(*options.spatial_size, scheduler);
    if (options.result.denormalize) denoise::expect_invertible(model.image);
    options.sampling.count = image_count(options, inputs);
    chosen = denoise::make_sampler(model, scheduler, inputs, options.sampling);
    std::vector<int64_t> axes = {options.sampling.count, image.channels, image.height, image.width};
    if (image.depth > 0) axes.insert(axes.begin() + 2, image.depth);
    if (!options.initial_noise.empty()) noise = noise_of_file(options.initial_noise, axes, tile);
    if (options.makes_dataset()) {
      settings = settings_of(options, options.threads, device);
    } else if (world.rank() == 0) {
      options.result.numbers = denoise::number_columns(inputs);
      output = make_sample_output(context.files, options.output, axes, model.image, options.result);
    }
  });
  const auto& label = options.inputs.class_label;
  context.log.info("sampling {}{} with {} in {} from {} ({})", base::counted(options.sampling.count, "image"),
                   label ? " of " + denoise::described_class(*label, model.image.class_names) : "",
                   base::name_of(sampler.scheduler), base::counted(sampler.steps, "step"), options.model,
                   model.description);
  say_guidance(options, model, inputs, context);
  denoise::BatchSampler drawn(model, *chosen, inputs, options.sampling, noise, device);
  drawn.use_tiles(tiles.pair());
  if (tile.tiles() > 1) {
    context.log.info("{} draw an image together, in a tile each", base::counted(tile.tiles(), "rank"));
  }
  if (drawn.windows() > 1) {
    context.log.info("each image is drawn in {} that overlap by {} or more", base::counted(drawn.windows(), "window"),
                     base::counted(*options.sampling.overlap, "pixel"));
  }
  if (options.makes_dataset()) {
    context.enter("making the images");
    denoise::sample_to_dataset(
        {model, drawn, inputs, options.sampling, options.output, options.result.denormalize, settings}, context);
  } else {
    write_images(options, drawn, tiles.mesh(), output.get(), context);
  }
}

/// A dataset's bytes must not depend on --batch. `sides`: of what the model sees at once.
void take_fixed_groups(SampleArguments& options, const std::vector<int64_t>& sides, const Context& context) {
  const int64_t group = denoise::largest_group(base::product_of(sides));
  if (options.sampling.batch < group) {
    context.log.warn(
        "--batch {} is not used: a dataset's samples are computed by groups that follow from their number and size, {} "
        "at most here, so that no batch changes their bytes",
        options.sampling.batch, group);
  }
  options.sampling.batch = group;
}

void run_sample(SampleArguments options, Context& context) {
  comm::MpiSession& session = context.session;
  comm::Communicator& world = session.world();
  comm::agree(world, [&] {
    check_format(options, context.files);
    if (!options.parameters.empty()) {
      options.inputs.parameters = read_numbers("--parameters", options.parameters, {-FLT_MAX, FLT_MAX});
    }
    if (options.size) options.sides = sides_of("--size", *options.size);
  });
  const at::Device device = device::choose_device(options.device, session, context.log);
  if (options.precision == SamplePrecision::bf16) {
    device::expect_bf16(device, world, {.asked = "--precision bf16", .possible = "--precision no"});
  }
  device::set_up_host_memory(device::FreedMemory::kept);
  // The last bits of sums depend on the number of threads, which otherwise follows from that of the ranks.
  if (options.makes_dataset() && options.threads == 0) options.threads = 1;
  device::start_threads(options.threads, session);
  context.enter("loading the model");
  denoise::LoadedModel model = load(options.model, options.weights, "--weights", options, context, device);
  std::optional<denoise::LoadedModel> weak;
  if (!options.guidance_model.empty()) {
    weak = load(options.guidance_model, options.guidance_weights, "--guidance-weights", options, context, device);
    options.sampling.weak = &*weak;
  }
  device::choose_inference_kernels(device, model.allow_tf32 && (!weak || weak->allow_tf32));
  comm::agree(world, [&] {
    const bool adapted = model.adapters || (weak && weak->adapters);
    denoise::expect_use_of_base(options.adapter_base, adapted, options.model);
    if (options.makes_dataset()) take_fixed_groups(options, model.image.sides(), context);
    if (options.size) options.sampling.overlap = denoise::set_image_size(model, options.sides, options.overlap);
    options.inputs.all_classes = options.class_label == "all";
    options.inputs.guides_itself = options.sampling.guidance_scale && !weak;
    if (!options.class_label || options.inputs.all_classes) return;
    options.inputs.class_label = denoise::class_of(*options.class_label, model.image.class_names, context.log);
  });
  denoise::SampleInputs inputs = denoise::SampleInputs::open(model, options.inputs, context, device);
  draw(options, model, inputs, context, device);
  inputs.close(world);
}

void declare_sampler(const Subcommand& sample, SampleArguments& o) {
  sample.add("--scheduler", &o.scheduler, fmt::format("Sampler; otherwise {}", diffusion::default_samplers_text()));
  sample.add("--steps", &o.steps, "Sampler steps (ddpm: all training timesteps; others: 50 at most)")
      .accept(IntegerRange{1, diffusion::kMostTimesteps});
  sample.add("--eta", &o.sampling.sampler.eta, "ddim: 0 deterministic, 1 as random as ddpm")
      .accept(NumberRange{0.0, 1.0})
      .show_default();
  sample.add("--churn", &o.sampling.sampler.churn, "euler and heun of edm: noise added before each step (S_churn)")
      .accept(NumberRange{0.0, kMaxChurn})
      .show_default();
  sample.add_flag("--karras-sigmas", o.sampling.sampler.karras_sigmas,
                  "dpmsolver++, euler, heun: noise levels spaced as by Karras et al.");
  sample.add("--timestep-spacing", &o.sampling.sampler.timestep_spacing, "Replaces the model's own");
}

void declare_inputs(const Subcommand& sample, SampleArguments& o) {
  sample.add(
      "--class-label", &o.class_label,
      "Class of all images, in place of those of --condition, for a class-conditional model: its number or name; or "
      "all: one after another");
  const Option condition =
      sample.add("--condition", &o.inputs.dataset,
                 "Dataset, HDF5 or NetCDF-4 file of what the images are drawn given, and of their labels");
  sample.add("--members", &o.inputs.members, "Images for each of its conditions")
      .accept(image_counts(1))
      .needs(condition)
      .show_default();
  sample.add("--parameters", &o.parameters, "Numbers that all images are drawn given, with commas between");
  const Option scale = sample.add("--guidance-scale", &o.sampling.guidance_scale,
                                  "Push away from the null class, or from --guidance-model; 1: not at all");
  scale.accept(NumberRange{0.0, kMaxGuidance});
  const Option weak = sample.add("--guidance-model", &o.guidance_model,
                                 "A worse model to push away from, such as an earlier checkpoint of the run");
  sample.add("--guidance-weights", &o.guidance_weights, "Which weights of --guidance-model, as for --weights")
      .needs(weak);
  sample.add("--initial-noise", &o.initial_noise,
             "Unit normal float32 [count, C, H, W], of volumes [count, C, D, H, W], as .npy");
}

void declare_work(const Subcommand& sample, SampleArguments& o) {
  sample.add("--count", &o.count, "Number of images (16; with --condition: all that it makes)").accept(image_counts(1));
  sample
      .add("--batch", &o.sampling.batch,
           "Images, or windows of them, per rank and forward pass, at most; not for datasets, whose groups are fixed")
      .accept(image_counts(1))
      .show_default();
  const Option size = sample.add("--size", &o.size,
                                 "HxW (DxHxW) of images larger than the model's, drawn by windows of its own size; of "
                                 "a model without one the size of images");
  sample
      .add("--spatial-size", &o.spatial_size,
           "Parts of each image that as many ranks draw together, such as 2x2, for images too large for one rank")
      .excludes(size);
  sample.add("--overlap", &o.overlap, "Pixels by which the windows of --size overlap; a quarter of a window if not set")
      .accept(IntegerRange{0, data::kMaxSide})
      .needs(size);
  sample.add("--seed", &o.sampling.seed, "Image i is a function of (seed, i)").accept(SeedRange{}).show_default();
  sample.add("--device", &o.device, "Where to compute").show_default();
  sample.add("--threads", &o.threads, "Threads per rank; 0: derived from the CPUs of the rank")
      .accept(thread_counts())
      .show_default();
  sample.add("--precision", &o.precision, "Type in which the model computes; no is float32").show_default();
}

void declare_output(const Subcommand& sample, SampleArguments& o) {
  sample.add_flag("--denormalize", o.result.denormalize,
                  "Write stored values (.npy, .h5, dataset), not the model's range");
  sample
      .add("--format", &o.format,
           "What a folder holds; a dataset is written by all ranks and completed by the same command")
      .show_default();
  sample.add("--columns", &o.result.columns, "Images in a row of the grid; otherwise as many as rows")
      .accept(image_counts(1));
  sample.add("--output", &o.output, "X.png (a grid), X.npy (float32 NCHW), X.h5 (a dataset), or a folder of PNGs")
      .required();
}

}  // namespace

void add_sample_command(const Subcommand& program, Command& command) {
  auto options = std::make_shared<SampleArguments>();
  const Subcommand sample = program.add_subcommand("sample", "Make pictures with a trained model");
  sample.add("--model", &options->model, "A run, a checkpoint, or a diffusers model folder").required();
  sample.add("--weights", &options->weights, kWeightsHelp);
  sample.add("--base", &options->adapter_base, kBaseHelp);
  declare_sampler(sample, *options);
  declare_inputs(sample, *options);
  declare_work(sample, *options);
  declare_output(sample, *options);
  sample.on_chosen([options, &command] {
    command = {.run = [options](Context& context) { run_sample(*options, context); }, .shares_work = true};
  });
}

}  // namespace ddpm::cli
