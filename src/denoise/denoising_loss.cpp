#include "denoise/denoising_loss.h"

#include <algorithm>
#include <bit>

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "denoise/model_inputs.h"
#include "denoise/null_class.h"
#include "diffusion/loss.h"

namespace ddpm::denoise {
namespace {

std::span<double, LossSums::kCount> numbers_of(const at::Tensor& row) {
  return std::span<double, LossSums::kCount>(row.mutable_data_ptr<double>(), LossSums::kCount);
}

/// The operator on the CPU.
at::Tensor loss_row_on_host(const at::Tensor& losses, const at::Tensor& place, int64_t places) {
  LossSums sums;
  sums.add(losses, place, places);
  at::Tensor row = at::empty({LossSums::kCount}, at::kDouble);
  sums.pack(numbers_of(row));
  return row;
}

}  // namespace

void LossSums::add(const at::Tensor& losses, const at::Tensor& place, int64_t places) {
  const at::Tensor host_losses = losses.to(at::kCPU, at::kDouble);
  const at::Tensor host_place = place.to(at::kCPU);
  for (int64_t i = 0; i < host_losses.numel(); ++i) {
    const double value = host_losses.const_data_ptr<double>()[i];
    const auto quartile = static_cast<std::size_t>(host_place.const_data_ptr<int64_t>()[i] * 4 / places);
    loss += value;
    quartile_loss.at(quartile) += value;
    quartile_count.at(quartile) += 1.0;
  }
}

void LossSums::pack(std::span<double, kCount> row) const {
  row[0] = loss;
  std::copy(quartile_loss.begin(), quartile_loss.end(), row.begin() + 1);
  std::copy(quartile_count.begin(), quartile_count.end(), row.begin() + 5);
}

void LossSums::unpack(std::span<const double, kCount> row) {
  loss = row[0];
  std::copy_n(row.begin() + 1, 4, quartile_loss.begin());
  std::copy_n(row.begin() + 5, 4, quartile_count.begin());
}

at::Tensor tree_sum(std::span<const at::Tensor> rows) {
  if (rows.size() == 1) return rows.front();
  const std::size_t left = std::bit_ceil(rows.size()) / 2;
  return tree_sum(rows.first(left)) + tree_sum(rows.subspan(left));
}

at::Tensor loss_row(const at::Tensor& losses, const at::Tensor& place, int64_t places) {
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::loss_row", "").typed<decltype(loss_row_on_host)>();
  return kOperator.call(losses, place, places);
}

diffusion::ImageShape noise_shape(const at::Tensor& x0, const nn::Partition& partition) {
  if (partition.tiles() == 1) return {.channels = x0.size(1), .height = x0.size(2), .width = x0.size(3)};
  const int64_t volume = partition.depth(x0);
  const int64_t layers = volume == 0 ? 1 : volume;
  const auto pixels = [](const nn::TilePlace& place, int64_t extent) {
    return layout::Range{place.first, place.first + extent};
  };
  const int64_t height = x0.size(2) / layers;
  const nn::TilePlace layer = volume == 0 ? nn::TilePlace{0, 1} : partition.place(nn::ImageAxis::depth, layers);
  const nn::TilePlace row = partition.place(nn::ImageAxis::height, height);
  const nn::TilePlace column = partition.place(nn::ImageAxis::width, x0.size(3));
  return {.channels = x0.size(1),
          .height = layer.total * row.total,
          .width = column.total,
          .tile = diffusion::ImageTile{.layers = layer.total,
                                       .layer = pixels(layer, layers),
                                       .row = pixels(row, height),
                                       .column = pixels(column, x0.size(3))}};
}

at::Tensor DenoisingLoss::answer(const ModelBatch& batch, const diffusion::TrainingNoise& random,
                                 const nn::RandomContext& dropout) const {
  const at::Tensor shown = process.shown(batch.x0, random, input_dtype);
  return unet.forward(model_input(shown, batch.beside), random.timesteps, batch.conditions, dropout, partition,
                      executor);
}

at::Tensor DenoisingLoss::pixels_seen(const ModelBatch& batch) const {
  if (partition.tiles() == 1) return {};
  if (batch.valid.defined()) return partition.gather_numbers(batch.valid.sum({1, 2, 3})).sum(0);
  const diffusion::ImageShape whole = noise_shape(batch.x0, partition);
  return at::full({batch.x0.size(0)}, whole.height * whole.width, batch.x0.options().dtype(at::kLong));
}

at::Tensor DenoisingLoss::own_losses(const ModelBatch& batch, const diffusion::TrainingNoise& random,
                                     const nn::RandomContext& dropout) const {
  const at::Tensor answered = answer(batch, random, dropout);
  if (!answered.defined()) return {};
  return diffusion::per_sample_loss(answered, process.asked(batch.x0, random), batch.valid, pixels_seen(batch)) *
         process.weight(random);
}

at::Tensor DenoisingLoss::over_tiles(const at::Tensor& own) const {
  return partition.tiles() == 1 ? own : partition.gather_numbers(own.detach()).sum(0);
}

at::Tensor DenoisingLoss::losses(const ModelBatch& batch, const diffusion::TrainingNoise& random,
                                 const nn::RandomContext& dropout) const {
  return over_tiles(own_losses(batch, random, dropout));
}

at::Tensor DenoisingLoss::channel_losses(const ModelBatch& batch, const diffusion::TrainingNoise& random,
                                         const nn::RandomContext& dropout) const {
  const at::Tensor answered = answer(batch, random, dropout);
  return over_tiles(
      diffusion::per_channel_loss(answered, process.asked(batch.x0, random), batch.valid, pixels_seen(batch)) *
      process.weight(random).unsqueeze(1));
}

at::Tensor DenoisingLoss::blank(const ModelBatch& batch) const {
  if (!batch.valid.defined()) return at::zeros({batch.x0.size(0)}, batch.x0.options().dtype(at::kBool));
  const at::Tensor in_tiles = pixels_seen(batch);
  return (in_tiles.defined() ? in_tiles : batch.valid.sum({1, 2, 3})) == 0;
}

at::Tensor DenoisingLoss::kept_labels(const ModelBatch& batch) const {
  const double p = process.config().class_dropout;
  const at::Tensor& labels = batch.conditions.class_labels;
  if (p == 0.0 || !labels.defined()) return labels;
  const at::Tensor dropped =
      diffusion::Draws{seed, batch.step_on_device, batch.positions.begin, batch.positions.size()}.uniforms(
          base::Stream::class_dropout) < p;
  return labels.masked_fill(dropped, null_class(unet.config()));
}

DenoisingLoss::Forward DenoisingLoss::forward(const ModelBatch& batch, engine::PartTimer& parts) const {
  parts.enter(engine::StepPart::other);
  const auto random = diffusion::make_noise(process.config(), seed, batch.step_on_device, batch.positions.begin,
                                            batch.positions.size(), noise_shape(batch.x0, partition));
  const nn::RandomContext dropout{.seed = seed,
                                  .step = static_cast<uint64_t>(batch.step),
                                  .first_position = static_cast<uint64_t>(batch.positions.begin),
                                  .training = true,
                                  .step_on_device = batch.step_on_device};
  parts.enter(engine::StepPart::forward);
  ModelBatch given = batch;
  given.conditions.class_labels = kept_labels(batch);
  return {.losses = own_losses(given, random, dropout), .place = random.place, .places = random.places};
}

at::Tensor DenoisingLoss::row(const Forward& pass) const {
  if (!pass.losses.defined()) return at::zeros({LossSums::kCount}, pass.place.options().dtype(at::kDouble));
  at::Tensor row = loss_row(over_tiles(pass.losses.detach()), pass.place, pass.places);
  return partition.tile() == 0 && partition.channel_part() == 0 ? row : at::zeros_like(row);
}

at::Tensor DenoisingLoss::forward_backward(const ModelBatch& batch, const at::Tensor& loss_factor,
                                           engine::PartTimer& parts) const {
  const Forward pass = forward(batch, parts);
  parts.enter(engine::StepPart::backward);
  pass.objective(loss_factor).backward();
  parts.enter(engine::StepPart::other);
  return row(pass);
}

}  // namespace ddpm::denoise

TORCH_LIBRARY_FRAGMENT(ddpm, library) { library.def("loss_row(Tensor losses, Tensor place, int places) -> Tensor"); }

TORCH_LIBRARY_IMPL(ddpm, CPU, library) { library.impl("loss_row", &ddpm::denoise::loss_row_on_host); }
