#include "run/post_hoc_average.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "base/counted.h"
#include "base/error.h"
#include "comm/collectives.h"
#include "engine/progress.h"
#include "optim/post_hoc.h"

namespace ddpm::run {
namespace {

/// Above this, the profile of the sum is another one than what was asked for.
constexpr double kGreatestError = 0.05;

double updates_of(const checkpoint::Checkpoint& checkpoint) {
  const std::string origin = state_origin(checkpoint.directory / checkpoint::kManifestName);
  const auto progress = engine::read_progress(checkpoint.manifest.state, checkpoint.manifest.step, origin);
  return static_cast<double>(progress.applied_updates);
}

/// The checkpoints of the run up to `end`, oldest first. Those that are damaged are left out, with a warning each.
std::vector<checkpoint::Checkpoint> checkpoints_up_to(const checkpoint::Checkpoint& end,
                                                      checkpoint::CheckpointStore& store, const base::Logger& log) {
  std::vector<checkpoint::Checkpoint> found;
  for (const checkpoint::CheckpointInfo& info : store.list(/*deep=*/false)) {
    if (info.step >= end.manifest.step) continue;
    try {
      checkpoint::Checkpoint checkpoint = store.open(info.directory);
      const double updates = updates_of(checkpoint);
      const bool repeats = !found.empty() && updates_of(found.back()) == updates;
      if (updates > 0 && updates < updates_of(end) && !repeats) found.push_back(std::move(checkpoint));
    } catch (const comm::AgreedError& error) {  // thrown on all ranks
      log.warn("{} is left out: {}", info.directory.string(), error.what());
    }
  }
  found.push_back(end);
  return found;
}

}  // namespace

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
  if (updates_of(end) == 0) {
    throw base::OutputError("{}: no step has changed the weights yet", end.directory.string());
  }
  const std::vector<checkpoint::Checkpoint> snapshots = checkpoints_up_to(end, store, log);
  std::vector<optim::PowerAverage> profiles;
  for (const checkpoint::Checkpoint& snapshot : snapshots) {
    for (const double length : averages.relative_lengths) {
      profiles.push_back({.updates = updates_of(snapshot), .gamma = optim::power_of_length(length)});
    }
  }
  const optim::Reconstruction made =
      optim::reconstruct(profiles, {.updates = updates_of(end), .gamma = optim::power_of_length(relative_length)});
  log.info("average of relative length {} from {}: its profile over time is met within {:.2g} %", relative_length,
           base::counted(static_cast<int64_t>(snapshots.size()), "checkpoint"), 100.0 * made.error);
  if (made.error > kGreatestError) {
    log.warn(
        "more checkpoints (checkpoint.keep_every), or a length nearer to those of ema.relative_lengths, come nearer");
  }

  std::vector<at::Tensor> sums;
  std::vector<ModelTensor> read(model.begin(), model.end());
  for (ModelTensor& tensor : read) {
    sums.push_back(at::zeros(tensor.shape, at::kDouble));
    if (tensor.role == base::ParameterRole::trained) tensor.value = at::empty_like(tensor.value);
  }
  auto share = made.shares.begin();
  for (const checkpoint::Checkpoint& snapshot : snapshots) {
    for (std::size_t i = 0; i < averages.relative_lengths.size(); ++i, ++share) {
      restore_weights(read, {.ema = averages.first + i}, store, snapshot);
      for (std::size_t t = 0; t < read.size(); ++t) {
        if (read[t].role == base::ParameterRole::trained) sums[t].add_(read[t].value.to(at::kCPU, at::kDouble), *share);
      }
    }
  }
  for (std::size_t t = 0; t < read.size(); ++t) {
    if (read[t].role == base::ParameterRole::trained) at::Tensor(model[t].value).copy_(sums[t]);
  }
}

}  // namespace ddpm::run
