#include "denoise/validation_set.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "base/counted.h"
#include "base/error.h"
#include "comm/collectives.h"
#include "denoise/batch.h"
#include "denoise/denoising_loss.h"
#include "denoise/model_fit.h"
#include "diffusion/noise.h"

namespace ddpm::denoise {
namespace {

std::string text_of(const data::DatasetInfo& info) {
  const data::ImageFormat image = info.image();
  return fmt::format("{} × {} × {} of {} (height × width × channels; scale {}, offset {})", image.height, image.width,
                     image.channels, data::numpy_name(image.dtype), info.normalization().scale,
                     info.normalization().offset);
}

void expect_like(const data::Dataset& training, const data::Dataset& validation) {
  const data::DatasetInfo& wanted = training.info();
  const data::DatasetInfo& seen = validation.info();
  const std::string path = validation.path().string();
  if (seen.image() != wanted.image() || seen.normalization() != wanted.normalization()) {
    throw base::DatasetError("data.validation: {}: images are {}, those of {} are {}: they must agree", path,
                             text_of(seen), training.path().string(), text_of(wanted));
  }
  // Ids follow the names' order, so a set that lacks a class numbers the later ones differently.
  const bool named = !seen.class_names.empty() && !wanted.class_names.empty();
  if (!training.labels().empty() && named && seen.class_names != wanted.class_names) {
    throw base::DatasetError("data.validation: {}: its {} classes are not the {} of {}, so labels mean other things",
                             path, seen.class_names.size(), wanted.class_names.size(), training.path().string());
  }
}

}  // namespace

ValidationSet::ValidationSet(data::Dataset dataset, const Options& options, comm::Communicator& world)
    : dataset_(std::move(dataset)),
      options_(options),
      world_(world),
      schedule_(options.diffusion.scheduler, options.device),
      batches_{.count = options.images > 0 ? options.images : dataset_.size(),
               .batch_size = options.batch,
               .ranks = options.mesh.degree(layout::kDataParallel)} {}

std::string ValidationSet::name() const { return fmt::format("{} images of {}", size(), dataset_.content_hash()); }

data::MicroBatch ValidationSet::read(layout::Range images) const {
  data::MicroBatch batch;
  batch.positions = images;
  batch.indices.resize(static_cast<std::size_t>(images.size()));
  std::iota(batch.indices.begin(), batch.indices.end(), images.begin);
  batch.values = dataset_.room_for(batch.indices);
  dataset_.read_block(images.begin, images.size(), batch.values[dataset_.info().find(data::FieldRole::image)]);
  return batch;
}

std::vector<double> ValidationSet::losses(const nn::UNet2D& unet, nn::UnitExecutor& executor) const {
  const at::NoGradGuard no_grad;
  const DenoisingLoss denoising{unet, schedule_, options_.diffusion, options_.seed, executor};
  std::vector<double> losses(static_cast<std::size_t>(size()));
  const int64_t rank = options_.mesh.coordinate(world_.rank(), layout::kDataParallel);
  const bool speaks = options_.mesh.group(world_.rank(), layout::kDataParallel) == 0;  // of ranks with the same images
  for (int64_t round = 0; round < batches_.rounds(); ++round) {
    const layout::Range mine = batches_.items(round, rank);
    data::MicroBatch batch;
    comm::agree(world_, [&] { batch = read(mine.empty() ? batches_.items(0, 0) : mine); });
    const auto positions = batch.positions;
    const ModelBatch images = model_batch(stored_batch(std::move(batch), dataset_.fields(), options_.device),
                                          dataset_.fields(), /*flip_seed=*/{});
    const at::Tensor& x0 = images.x0;
    const auto random =
        diffusion::validation_noise(options_.diffusion, options_.seed, positions.begin, positions.size(),
                                    {x0.size(1), x0.size(2), x0.size(3)}, options_.device);
    const at::Tensor each = denoising.losses(x0, images.labels, random, nn::RandomContext{}).to(at::kCPU, at::kDouble);
    if (speaks) std::copy_n(each.const_data_ptr<double>(), mine.size(), losses.begin() + mine.begin);
  }
  // One rank has the loss of an image and the others have zero, so the order of the sum cannot change it.
  comm::all_reduce(world_, losses, comm::ReduceOp::sum);
  return losses;
}

ValidationSet make_validation_set(data::Dataset dataset, const ValidationSet::Options& options,
                                  const data::Dataset& training, const nn::UNet2DConfig& model,
                                  comm::Communicator& world) {
  comm::expect_same(world, "validation set", dataset.content_hash());
  comm::agree(world, [&] {
    expect_like(training, dataset);
    fit_model(model, dataset);
    if (options.images > dataset.size()) {
      throw base::DatasetError("data.validation: {}: holds {}, but validation.images = {}", dataset.path().string(),
                               base::counted(dataset.size(), "image"), options.images);
    }
  });
  return {std::move(dataset), options, world};
}

double mean_loss(const std::vector<double>& losses) {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

}  // namespace ddpm::denoise
