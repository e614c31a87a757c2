#include "engine/flat_passes.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/clock.h"
#include "optim/clip.h"
#include "optim/update_operators.h"

namespace ddpm::engine {
namespace {

/// Elements that one thread updates at a time: weights, gradient, two moments and an average fit the second-level
/// cache.
constexpr int64_t kBlock = 16384;

std::span<float> floats(const at::Tensor& flat) {
  return {flat.mutable_data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

template <typename T>
std::span<T> part(std::span<T> all, int64_t begin, int64_t end) {
  return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

std::span<float> floats(const at::Tensor& flat, layout::Range range) {
  return part(floats(flat), range.begin, range.end);
}

/// What the calling thread spent, as a sample of all threads: averages are updated while a block is in the cache.
struct UpdateSeconds {
  double all = 0.0;
  double ema = 0.0;
};

/// Elements `range` of a piece, and their gradient. `decays`: of the averages, at this step.
void update_on_host(TrainingState& model, std::size_t piece, layout::Range range, std::span<const float> gradient,
                    const optim::AdamWConfig& adamw, const optim::AdamWStep& step, std::span<const double> decays,
                    UpdateSeconds& seconds) {
  const auto weights = floats(model.arena.master()[piece], range);
  const auto exp_avg = floats(model.exp_avg[piece], range);
  const auto exp_avg_sq = floats(model.exp_avg_sq[piece], range);
  at::parallel_for(0, std::ssize(weights), kBlock, [&](int64_t first, int64_t last) {
    UpdateSeconds own;
    for (int64_t begin = first; begin < last; begin += kBlock) {
      const int64_t end = std::min(last, begin + kBlock);
      const double start = base::steady_seconds();
      optim::adamw_update(adamw, step, part(weights, begin, end), part(gradient, begin, end), part(exp_avg, begin, end),
                          part(exp_avg_sq, begin, end));
      const double updated = base::steady_seconds();
      for (std::size_t i = 0; i < decays.size(); ++i) {
        optim::ema_update(decays[i], part(floats(model.ema[i][piece], range), begin, end), part(weights, begin, end));
      }
      const double averaged = base::steady_seconds();
      own.all += averaged - start;
      own.ema += averaged - updated;
    }
    if (first != 0) return;  // another thread's
    seconds.all += own.all;
    seconds.ema += own.ema;
  });
}

}  // namespace

double sum_of_squares(const at::Tensor& gradient) {
  if (!gradient.is_cpu()) {
    const at::Tensor sums = at::empty({3}, gradient.options().dtype(at::kDouble));
    optim::sum_of_squares_(gradient, 1, sums);
    return sums[0].item<double>();
  }
  const auto values = floats(gradient);
  std::vector<double> sums(static_cast<std::size_t>(optim::norm_blocks(std::ssize(values))));
  at::parallel_for(0, static_cast<int64_t>(sums.size()), 16, [&](int64_t first, int64_t last) {
    const int64_t begin = first * optim::kNormBlock;
    const int64_t end = std::min(last * optim::kNormBlock, std::ssize(values));
    optim::block_sums_of_squares(
        part(values, begin, end),
        std::span(sums).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)));
  });
  return optim::tree_sum(sums);
}

void apply_update(TrainingState& model, const optim::AdamWConfig& adamw, const optim::EmaConfig& ema,
                  double learning_rate, double gradient_scale, PartTimer& parts, parallel::OffloadedUpdate* offloaded) {
  const at::NoGradGuard no_grad;
  const optim::AdamWStep step{
      .learning_rate = learning_rate, .applied_step = model.progress.applied_updates, .gradient_scale = gradient_scale};
  std::vector<double> decays;
  const std::size_t averages = model.outer ? 0 : model.ema.size();
  for (std::size_t i = 0; i < averages; ++i) decays.push_back(optim::ema_decay(ema, i, step.applied_step));
  UpdateSeconds seconds;
  const auto on_host = [&](std::size_t piece, layout::Range range, std::span<const float> gradient) {
    update_on_host(model, piece, range, gradient, adamw, step, decays, seconds);
  };
  if (offloaded != nullptr) {
    offloaded->run(on_host);
  } else {
    for (std::size_t i = 0; i < model.arena.pieces().size(); ++i) {
      on_host(i, {0, model.arena.pieces()[i].size()}, floats(model.arena.gradient_pieces()[i]));
    }
  }
  if (seconds.all > 0.0) parts.leave_share(seconds.ema / seconds.all, StepPart::ema);
  parts.enter(StepPart::optimizer);
  if (offloaded == nullptr) model.arena.refresh_working();
}

void swap_values(const parallel::StateBuffer& a, const parallel::StateBuffer& b) {
  constexpr int64_t kElements = int64_t{1} << 20;
  const at::NoGradGuard no_grad;
  for (std::size_t piece = 0; piece < a.size(); ++piece) {
    for (int64_t begin = 0; begin < a[piece].numel(); begin += kElements) {
      const int64_t count = std::min(kElements, a[piece].numel() - begin);
      const at::Tensor left = a[piece].narrow(0, begin, count);
      const at::Tensor right = b[piece].narrow(0, begin, count);
      const at::Tensor kept = left.clone();
      left.copy_(right);
      right.copy_(kept);
    }
  }
}

}  // namespace ddpm::engine
