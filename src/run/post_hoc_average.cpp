#include "run/post_hoc_average.h"

#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "comm/collectives.h"
#include "engine/progress.h"
#include "optim/post_hoc.h"

namespace ddpm::run {
namespace {

/// Above this, the profile of the sum is another one than what was asked for.
constexpr double kGreatestError = 0.05;

constexpr const char* kPowerAverages = "power_averages";

/// "0.05, 0.1 behind 1 other average", or "none"
std::string text_of(const PowerAverages& averages) {
  if (averages.relative_lengths.empty()) return "none";
  return fmt::format("{} behind {}", fmt::join(averages.relative_lengths, ", "),
                     base::counted(static_cast<int64_t>(averages.first), "other average"));
}

/// A checkpoint and the updates that its averages have seen.
struct Kept {
  checkpoint::Checkpoint checkpoint;
  double updates = 0.0;
};

Kept kept_of(checkpoint::Checkpoint checkpoint) {
  const std::string origin = state_origin(checkpoint);
  const auto progress = engine::read_progress(checkpoint.manifest.state, checkpoint.manifest.step, origin);
  return {.checkpoint = std::move(checkpoint), .updates = static_cast<double>(progress.averaged_updates)};
}

/// The checkpoints of the run up to `end`, oldest first, each with averages of more updates than the one before. Those
/// that are damaged are left out, with a warning each.
std::vector<Kept> snapshots_up_to(const checkpoint::Checkpoint& end, checkpoint::CheckpointStore& store,
                                  const base::Logger& log) {
  Kept last = kept_of(end);
  if (last.updates == 0) throw base::OutputError("{}: its averages have seen no update yet", end.directory.string());
  std::vector<Kept> found;
  for (const checkpoint::CheckpointInfo& info : store.list(/*deep=*/false)) {
    if (info.step >= end.manifest.step) continue;
    try {
      Kept snapshot = kept_of(store.open(info.directory));
      const double least = found.empty() ? 0.0 : found.back().updates;
      if (snapshot.updates > least && snapshot.updates < last.updates) found.push_back(std::move(snapshot));
    } catch (const comm::AgreedError& error) {  // thrown on all ranks
      log.warn("{} is left out: {}", info.directory.string(), error.what());
    }
  }
  found.push_back(std::move(last));
  return found;
}

/// The share of each average of each snapshot in the one of this relative length. Says how near it comes.
std::vector<double> shares_of(const std::vector<Kept>& snapshots, const PowerAverages& averages, double relative_length,
                              const base::Logger& log) {
  std::vector<optim::PowerAverage> profiles;
  for (const Kept& snapshot : snapshots) {
    for (const double length : averages.relative_lengths) {
      profiles.push_back({.updates = snapshot.updates, .gamma = optim::power_of_length(length)});
    }
  }
  const optim::PowerAverage wanted{.updates = snapshots.back().updates,
                                   .gamma = optim::power_of_length(relative_length)};
  optim::Reconstruction made = optim::reconstruct(profiles, wanted);
  log.info("average of relative length {} from {}: its profile over time is met within {:.2g} %", relative_length,
           base::counted(snapshots.size(), "checkpoint"), 100.0 * made.error);
  if (made.error > kGreatestError) {
    log.warn(
        "more checkpoints (checkpoint.keep_every), or a length nearer to those of ema.relative_lengths, come nearer");
  }
  return std::move(made.shares);
}

}  // namespace

PowerAverages PowerAverages::of(const optim::EmaConfig& ema) {
  return {.relative_lengths = ema.enabled ? ema.relative_lengths : std::vector<double>{},
          .first = ema.max_decay.size()};
}

void write_power_averages(const PowerAverages& averages, base::Json& state) {
  state[kPowerAverages] = text_of(averages);
}

void expect_power_averages(const PowerAverages& averages, const checkpoint::Checkpoint& checkpoint) {
  const base::Json& state = checkpoint.manifest.state;
  const std::string wanted = text_of(averages);
  const std::string held = state.value(kPowerAverages, wanted);
  if (held == wanted) return;
  throw base::OutputError("{}: its averages of relative lengths are {}; ema.relative_lengths wants {}",
                          checkpoint.directory.string(), held, wanted);
}

void restore_average_of_length(std::span<const ModelTensor> model, double relative_length,
                               const PowerAverages& averages, checkpoint::CheckpointStore& store,
                               const checkpoint::Checkpoint& end, const base::Logger& log) {
  const at::NoGradGuard no_grad;
  if (averages.relative_lengths.empty()) {
    throw base::OutputError(
        "{}: the run keeps no averages from which one of any length can be made; wanted: a run with "
        "ema.relative_lengths = [0.05, 0.1]",
        end.directory.string());
  }
  const std::vector<Kept> snapshots = snapshots_up_to(end, store, log);
  const std::vector<double> shares = shares_of(snapshots, averages, relative_length, log);
  restore_weights(model, {.ema = averages.first}, store, end);  // what is not trained; the rest follows
  std::vector<ModelTensor> averaged;
  std::vector<at::Tensor> sums;
  std::vector<at::Tensor> targets;
  for (const ModelTensor& tensor : model) {
    if (tensor.role != base::ParameterRole::trained) continue;
    averaged.push_back(tensor);
    averaged.back().value = at::empty_like(tensor.value);
    sums.push_back(at::zeros(tensor.shape, at::kDouble));
    targets.push_back(tensor.value);
  }
  auto share = shares.begin();
  for (const Kept& snapshot : snapshots) {
    for (std::size_t i = 0; i < averages.relative_lengths.size(); ++i, ++share) {
      restore_weights(averaged, {.ema = averages.first + i}, store, snapshot.checkpoint);
      for (std::size_t t = 0; t < sums.size(); ++t) sums[t].add_(averaged[t].value.to(at::kCPU, at::kDouble), *share);
    }
  }
  for (std::size_t t = 0; t < sums.size(); ++t) targets[t].copy_(sums[t]);
}

}  // namespace ddpm::run
