#include "train/denoising_step.h"

#include <algorithm>
#include <bit>

#include "diffusion/loss.h"

namespace ddpm::train {

void LossSums::add(const at::Tensor& losses, const at::Tensor& timesteps, int64_t num_train_timesteps) {
  const at::Tensor host_losses = losses.to(at::kCPU, at::kDouble);
  const at::Tensor host_timesteps = timesteps.to(at::kCPU);
  for (int64_t i = 0; i < host_losses.numel(); ++i) {
    const double value = host_losses.const_data_ptr<double>()[i];
    const auto quartile =
        static_cast<std::size_t>(host_timesteps.const_data_ptr<int64_t>()[i] * 4 / num_train_timesteps);
    loss += value;
    quartile_loss.at(quartile) += value;
    quartile_count.at(quartile) += 1.0;
  }
}

LossSums& LossSums::operator+=(const LossSums& other) {
  loss += other.loss;
  for (std::size_t q = 0; q < 4; ++q) {
    quartile_loss.at(q) += other.quartile_loss.at(q);
    quartile_count.at(q) += other.quartile_count.at(q);
  }
  return *this;
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

LossSums tree_sum(std::span<const LossSums> sums) {
  if (sums.size() == 1) return sums.front();
  const std::size_t left = std::bit_ceil(sums.size()) / 2;
  LossSums sum = tree_sum(sums.first(left));
  sum += tree_sum(sums.subspan(left));
  return sum;
}

at::Tensor DenoisingStep::losses(const at::Tensor& x0, const at::Tensor& labels, const diffusion::TrainingNoise& random,
                                 const nn::RandomContext& dropout) const {
  const at::Tensor t = random.timesteps.to(x0.device());
  const at::Tensor noise = random.noise.to(x0.device()).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor x_t = schedule.add_noise(x0, noise, t);
  const at::Tensor prediction = unet.forward(x_t, t, labels, dropout, nn::whole_image(), executor);
  return diffusion::per_sample_loss(prediction, schedule.target(x0, noise, t)) *
         diffusion::loss_weight(schedule, config.snr_gamma, t);
}

LossSums DenoisingStep::forward_backward(const data::MicroBatch& batch, const at::Tensor& x0, const at::Tensor& labels,
                                         double loss_factor, PartTimer& parts) const {
  parts.enter(StepPart::other);
  const auto step = static_cast<uint64_t>(batch.step);
  const diffusion::ImageShape shape{x0.size(1), x0.size(2), x0.size(3)};
  const auto random = diffusion::make_noise(config, seed, step, batch.positions.begin, batch.positions.size(), shape);
  const nn::RandomContext dropout{
      .seed = seed, .step = step, .first_position = static_cast<uint64_t>(batch.positions.begin), .training = true};
  parts.enter(StepPart::forward);
  const at::Tensor each = losses(x0, labels, random, dropout);
  parts.enter(StepPart::backward);
  (each.sum() * loss_factor).backward();
  parts.enter(StepPart::other);

  LossSums sums;
  sums.add(each.detach(), random.timesteps, schedule.num_train_timesteps());
  return sums;
}

}  // namespace ddpm::train
