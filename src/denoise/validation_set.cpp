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

/// The names of the images' variables, where there are several of measured values; none of pictures.
std::vector<std::string> variables_of(const data::Dataset& dataset) {
  const data::Field& images = dataset.info().image_field();
  if (images.dtype == base::DType::u8 || images.format().channels < 2) return {};
  std::vector<std::string> names;
  for (int64_t i = 0; i < images.format().channels; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const bool named = place < images.variables.size() && !images.variables[place].name.empty();
    std::string name = named ? images.variables[place].name : fmt::format("{}", i);
    const bool taken = std::ranges::find(names, name) != names.end();
    names.push_back(taken ? fmt::format("{}_{}", name, i) : std::move(name));
  }
  return names;
}

/// A row of numbers for each image, of which one rank has those of an image and the others have zeros: so the order of
/// their sum over the ranks cannot change it.
class LossTable {
 public:
  LossTable(int64_t images, std::size_t columns)
      : columns_(columns), values_(static_cast<std::size_t>(images) * columns) {}

  /// Columns from `column` on of the rows from `row` on: losses [n] or [n, columns], of which the first `rows` count.
  void set(int64_t row, std::size_t column, const at::Tensor& losses, int64_t rows) {
    const at::Tensor host = losses.to(at::kCPU, at::kDouble).reshape({losses.size(0), -1}).contiguous();
    const int64_t width = host.size(1);
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(host.const_data_ptr<double>() + i * width, width,
                  values_.begin() + (row + i) * static_cast<int64_t>(columns_) + static_cast<int64_t>(column));
    }
  }
  void sum(comm::Communicator& world) { comm::all_reduce(world, values_, comm::ReduceOp::sum); }

  [[nodiscard]] std::vector<double> column(std::size_t column) const {
    std::vector<double> values;
    for (std::size_t i = column; i < values_.size(); i += columns_) values.push_back(values_[i]);
    return values;
  }

 private:
  std::size_t columns_;
  std::vector<double> values_;
};

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
               .ranks = options.mesh.degree(layout::kDataParallel)},
      variables_(variables_of(dataset_)),
      levels_(diffusion::level_grid(options.diffusion, options.levels)) {}

std::string ValidationSet::name() const { return fmt::format("{} images of {}", size(), dataset_.content_hash()); }

data::MicroBatch ValidationSet::read(layout::Range range) const {
  if (read_) return read_windows(dataset_, range, *read_);
  return read_range(dataset_, range, [](const data::Field&) { return true; });
}

ModelBatch ValidationSet::batch_of(data::MicroBatch read) const {
  const auto& fields = read_ ? read_->read_of(dataset_.fields()) : dataset_.fields();
  ModelBatch batch = inputs_.batch(stored_batch(std::move(read), fields, options_.device), /*augmentation=*/{});
  return mean_ ? without_mean(*mean_, std::move(batch)) : batch;
}

ValidationLosses ValidationSet::losses(const nn::UNet2D& unet, nn::UnitExecutor& executor) const {
  const at::NoGradGuard no_grad;
  const DenoisingLoss denoising{unet, process_, options_.seed, executor};
  LossTable table(size(), 1 + variables_.size() + levels_.size());
  const int64_t rank = options_.mesh.coordinate(world_.rank(), layout::kDataParallel);
  const bool speaks = options_.mesh.group(world_.rank(), layout::kDataParallel) == 0;  // of ranks with the same images
  for (int64_t round = 0; round < batches_.rounds(); ++round) {
    const layout::Range mine = batches_.items(round, rank);
    data::MicroBatch stored;
    // A rank that has no images in this round reads the first ones, since the model runs on every rank.
    comm::agree(world_, [&] { stored = read(mine.empty() ? batches_.items(0, 0) : mine); });
    const auto positions = stored.positions;
    const ModelBatch images = batch_of(std::move(stored));
    const at::Tensor& x0 = images.x0;
    const auto random =
        diffusion::validation_noise(options_.diffusion, options_.seed, positions.begin, positions.size(),
                                    {x0.size(1), x0.size(2), x0.size(3)}, options_.device);
    const int64_t counted = speaks ? mine.size() : 0;
    const ImageLosses drawn = denoising.losses_by_variable(images, random);
    table.set(mine.begin, 0, drawn.each, counted);
    if (!variables_.empty()) table.set(mine.begin, 1, drawn.variables, counted);
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      const auto at = diffusion::at_level(options_.diffusion, random, levels_[i].quantile);
      table.set(mine.begin, 1 + variables_.size() + i, denoising.losses(images, at, nn::RandomContext{}), counted);
    }
  }
  table.sum(world_);
  ValidationLosses losses{.images = table.column(0)};
  for (std::size_t i = 0; i < variables_.size(); ++i)
    losses.variables.emplace_back(variables_[i], mean_loss(table.column(1 + i)));
  for (std::size_t i = 0; i < levels_.size(); ++i)
    losses.levels.emplace_back(levels_[i].name, mean_loss(table.column(1 + variables_.size() + i)));
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
