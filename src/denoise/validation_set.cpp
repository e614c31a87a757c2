#include "denoise/validation_set.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "comm/collectives.h"
#include "denoise/batch.h"
#include "denoise/denoising_loss.h"
#include "denoise/mean_model.h"
#include "denoise/model_fit.h"

namespace ddpm::denoise {
namespace {

std::string text_of(const data::DatasetInfo& info) {
  const data::ImageFormat image = info.image();
  return fmt::format("{} × {} of {} ({}height × width × channels; scale {}, offset {})", data::size_text(image),
                     image.channels, data::numpy_name(image.dtype), image.depth > 0 ? "depth × " : "",
                     info.normalization().scale, info.normalization().offset);
}

/// What a folder records of a field's variables must be the same; a bare file takes it from the training set.
bool same_variables(const data::Dataset& validation, const data::Field& seen, const data::Field& wanted) {
  const bool bare = validation.info().shards.front().sha256.empty();
  return bare || seen.variables == wanted.variables;
}

std::string transforms_of(const data::Field& field) {
  std::vector<std::string> each;
  for (const auto& [name, unit, transform] : field.variables) {
    each.push_back(fmt::format("{} ({}) by {}", name, unit.empty() ? "no unit" : unit, transform.text()));
  }
  return fmt::format("{}", fmt::join(each, ", "));
}

void expect_like(const data::Dataset& training, const data::Dataset& validation) {
  const data::DatasetInfo& wanted = training.info();
  const data::DatasetInfo& seen = validation.info();
  const std::string path = validation.path().string();
  if (seen.image() != wanted.image() || !same_variables(validation, seen.image_field(), wanted.image_field())) {
    throw base::DatasetError("data.validation: {}: images are {}, those of {} are {}: they must agree", path,
                             text_of(seen), training.path().string(), text_of(wanted));
  }
  const auto same_values = [](const data::Field& a, const data::Field& b) {
    return a.role == b.role && a.shape == b.shape && a.dtype == b.dtype;
  };
  for (const data::Field& field : wanted.fields) {
    const std::size_t at = seen.find(field.role);
    if (field.role == data::FieldRole::labels || field.role == data::FieldRole::mask) continue;
    const bool alike = at < seen.fields.size() && same_values(seen.fields[at], field);
    if (alike && same_variables(validation, seen.fields[at], field)) continue;
    if (alike) {
      throw base::DatasetError("data.validation: {}: its field of role {} holds {}; as in {} is wanted: {}", path,
                               base::name_of(field.role), transforms_of(seen.fields[at]), training.path().string(),
                               transforms_of(field));
    }
    throw base::DatasetError(
        "data.validation: {}: its field of role {} is not like the one of {}: [{}] of {} is wanted", path,
        base::name_of(field.role), training.path().string(), fmt::join(field.shape, ", "),
        data::numpy_name(field.dtype));
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
      process_(options.diffusion, options.device),
      windows_(options.patch, options.seed, base::Stream::validation_patch, options.device),
      read_(windows_to_read(windows_, options.patch, dataset_)),
      inputs_(dataset_, options.positions, options.device, windows_),
      batches_{.count = options.images > 0 ? options.images : dataset_.size(),
               .batch_size = options.batch,
               .ranks = options.mesh.degree(layout::kDataParallel)} {}

std::string ValidationSet::name() const { return fmt::format("{} images of {}", size(), dataset_.content_hash()); }

std::vector<double> ValidationSet::losses(const nn::UNet2D& unet, nn::UnitExecutor& executor) const {
  const at::NoGradGuard no_grad;
  const DenoisingLoss denoising{unet, process_, options_.seed, executor};
  std::vector<double> losses(static_cast<std::size_t>(size()));
  const int64_t rank = options_.mesh.coordinate(world_.rank(), layout::kDataParallel);
  const bool speaks = options_.mesh.group(world_.rank(), layout::kDataParallel) == 0;  // of ranks with the same images
  for (int64_t round = 0; round < batches_.rounds(); ++round) {
    const layout::Range mine = batches_.items(round, rank);
    data::MicroBatch batch;
    comm::agree(world_, [&] {
      // A rank that has no images in this round reads the first ones, since the model runs on every rank.
      const layout::Range range = mine.empty() ? batches_.items(0, 0) : mine;
      batch = read_ ? read_windows(dataset_, range, *read_)
                    : read_range(dataset_, range, [](const data::Field&) { return true; });
    });
    const auto positions = batch.positions;
    ModelBatch images = inputs_.batch(
        stored_batch(std::move(batch), read_ ? read_->read_of(dataset_.fields()) : dataset_.fields(), options_.device),
        /*augmentation=*/{});
    if (mean_) images = without_mean(*mean_, std::move(images));
    const at::Tensor& x0 = images.x0;
    const auto random =
        diffusion::validation_noise(options_.diffusion, options_.seed, positions.begin, positions.size(),
                                    {x0.size(1), x0.size(2), x0.size(3)}, options_.device);
    const at::Tensor each = denoising.losses(images, random, nn::RandomContext{}).to(at::kCPU, at::kDouble);
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
    dataset.set_transforms(training.info().fields);
    fit_model(model, dataset, options.positions, options.patch);
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
