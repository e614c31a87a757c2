#include "denoise/validation_set.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "comm/collectives.h"
#include "denoise/batch.h"
#include "denoise/denoising_loss.h"
#include "denoise/mean_model.h"
#include "denoise/model_fit.h"
#include "denoise/same_meaning.h"

namespace ddpm::denoise {
namespace {

std::string text_of(const data::DatasetInfo& info) {
  const data::ImageFormat image = info.image();
  return fmt::format("{} × {} of {} ({}height × width × channels; scale {}, offset {})", data::size_text(image),
                     image.channels, data::numpy_name(image.dtype), image.depth > 0 ? "depth × " : "",
                     info.normalization().scale, info.normalization().offset);
}

void expect_like(const TrainedImages& training, const data::Dataset& validation) {
  const data::DatasetInfo& wanted = training.info;
  const data::DatasetInfo& seen = validation.info();
  const std::string path = validation.path().string();
  if (seen.image() != wanted.image()) {
    throw base::DatasetError("{}: {}: images are {}, those of {} are {}: they must agree", training.asked, path,
                             text_of(seen), training.path, text_of(wanted));
  }
  const auto same_values = [](const data::Field& a, const data::Field& b) {
    return a.role == b.role && a.shape == b.shape && a.dtype == b.dtype;
  };
  const HeldAgainst sets{.set = validation, .asked = training.asked, .trained = training.path};
  for (const data::Field& field : wanted.fields) {
    const std::size_t at = seen.find(field.role);
    if (field.role == data::FieldRole::labels || field.role == data::FieldRole::mask) continue;
    if (at == seen.fields.size() || !same_values(seen.fields[at], field)) {
      throw base::DatasetError("{}: {}: its field of role {} is not like the one of {}: [{}] of {} is wanted",
                               training.asked, path, base::name_of(field.role), training.path,
                               fmt::join(field.shape, ", "), data::numpy_name(field.dtype));
    }
    expect_same_variables(sets, seen.fields[at], field, training.named ? VariableRule::all : VariableRule::transforms);
  }
  if (training.labelled) expect_same_classes(sets, wanted.class_names);
}

}  // namespace

ValidationSet::ValidationSet(data::Dataset dataset, const ValidationSetOptions& options, comm::Communicator& world)
    : dataset_(std::move(dataset)),
      options_(options),
      world_(world),
      process_(options.diffusion, options.device),
      windows_(options.patch, options.seed, base::Stream::validation_patch, options.device, {},
               {.pixels = options.tiling.cut_pixels(options.mesh.coordinate(world.rank(), layout::Axis::spatial))}),
      read_(windows_to_read(windows_, options.patch, dataset_.has_checksums())),
      inputs_(dataset_, options.positions, options.device, windows_),
      batches_{.count = options.images > 0 ? options.images : dataset_.size(),
               .batch_size = options.batch,
               .ranks = options.mesh.degree(layout::kDataParallel)} {}

std::string ValidationSet::name() const { return fmt::format("{} images of {}", size(), dataset_.content_hash()); }

data::MicroBatch ValidationSet::read(layout::Range range) const {
  return read_ ? read_windows(dataset_, range, *read_)
               : read_range(dataset_, range, [](const data::Field&) { return true; });
}

std::vector<double> ValidationSet::of_each_image(int64_t width, const Measure& measure,
                                                 const base::ProgressReport& progress) const {
  const at::NoGradGuard no_grad;
  std::vector<double> numbers(static_cast<std::size_t>(size() * width));
  const int64_t share = layout::image_share(options_.mesh, world_.rank());
  const bool speaks = options_.mesh.group(world_.rank(), layout::kDataParallel) == 0;  // one rank per share of images
  for (int64_t round = 0; round < batches_.rounds(); ++round) {
    const layout::Range mine = batches_.items(round, share);
    data::MicroBatch batch;
    // A rank that has no images in this round reads the first ones, since the model runs on every rank.
    comm::agree(world_, [&] { batch = read(mine.empty() ? batches_.items(0, 0) : mine); });
    const auto positions = batch.positions;
    ModelBatch images = inputs_.batch(
        stored_batch(std::move(batch), read_ ? read_->read_of(dataset_.fields()) : dataset_.fields(), options_.device),
        /*augmentation=*/{});
    if (mean_) images = without_mean(*mean_, std::move(images), *tiles_.mean);
    const at::Tensor each = measure(images, positions).to(at::kCPU, at::kDouble).contiguous();
    if (speaks) std::copy_n(each.const_data_ptr<double>(), mine.size() * width, numbers.begin() + mine.begin * width);
    if (progress) progress(round + 1, batches_.rounds());
  }
  // One rank has the numbers of an image and the others have zero, so the order of the sum cannot change them.
  comm::all_reduce(world_, numbers, comm::ReduceOp::sum);
  return numbers;
}

ImageLosses ValidationSet::losses(const nn::UNet2D& unet, nn::UnitExecutor& executor,
                                  const base::ProgressReport& progress) const {
  const DenoisingLoss denoising{
      .unet = unet, .process = process_, .seed = options_.seed, .executor = executor, .partition = *tiles_.model};
  const auto measure = [&](const ModelBatch& images, layout::Range positions) {
    const auto random =
        diffusion::validation_noise(options_.diffusion, options_.seed, positions.begin, positions.size(),
                                    noise_shape(images.x0, *tiles_.model), options_.device);
    const at::Tensor each = denoising.losses(images, random, nn::RandomContext{});
    return at::stack({each, denoising.blank(images).to(each.scalar_type())}, 1);
  };
  constexpr int64_t kNumbers = 2;  // of each image: its loss, and 1 where it is blank
  const std::vector<double> numbers = of_each_image(kNumbers, measure, progress);
  ImageLosses losses;
  losses.each.reserve(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < numbers.size(); i += kNumbers) {
    losses.each.push_back(numbers[i]);
    losses.blank += numbers[i + 1] != 0.0 ? 1 : 0;
  }
  return losses;
}

at::Tensor ValidationSet::grid_losses(const nn::UNet2D& unet, nn::UnitExecutor& executor, int64_t levels,
                                      const base::ProgressReport& progress) const {
  const DenoisingLoss denoising{
      .unet = unet, .process = process_, .seed = options_.seed, .executor = executor, .partition = *tiles_.model};
  const int64_t channels = unet.config().out_channels;
  const auto measure = [&](const ModelBatch& images, layout::Range positions) {
    std::vector<at::Tensor> each;
    for (int64_t level = 0; level < levels; ++level) {
      const auto random =
          diffusion::grid_noise(options_.diffusion, options_.seed, {level, levels}, positions.begin, positions.size(),
                                noise_shape(images.x0, *tiles_.model), options_.device);
      each.push_back(denoising.channel_losses(images, random, nn::RandomContext{}));
    }
    return at::stack(each, 1);
  };
  const std::vector<double> numbers = of_each_image(levels * channels, measure, progress);
  return at::tensor(numbers, at::kDouble).view({size(), levels, channels});
}

ValidationSet make_validation_set(data::Dataset dataset, const ValidationSetOptions& options,
                                  const TrainedImages& trained, const nn::UNet2DConfig& model,
                                  comm::Communicator& world) {
  comm::expect_same(world, "validation set", dataset.content_hash());
  comm::agree(world, [&] {
    expect_like(trained, dataset);
    dataset.set_transforms(trained.info.fields);
    fit_model(model, dataset, options.positions, options.patch);
    if (options.images > dataset.size()) {
      throw base::DatasetError("data.validation: {}: holds {}, but validation.images = {}", dataset.path().string(),
                               base::counted(dataset.size(), "image"), options.images);
    }
  });
  return {std::move(dataset), options, world};
}

double ImageLosses::mean() const {
  return std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size());
}

double ImageLosses::mean_of_valid() const {
  return std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(std::ssize(each) - blank);
}

}  // namespace ddpm::denoise
