// Learning rate as a pure function of the number of optimizer updates, never of ranks or micro-batches.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "config/schema.h"

namespace ddpm::optim {

/// Shapes of the learning rate. The first six names are those of diffusers' get_scheduler, one_cycle is PyTorch's
/// OneCycleLR.
enum class LrShape : uint8_t {
  constant,
  constant_with_warmup,
  linear,
  cosine,
  cosine_with_restarts,
  polynomial,
  one_cycle,
};
constexpr auto names_of(LrShape /*type*/) {
  return std::to_array<std::string_view>(
      {"constant", "constant_with_warmup", "linear", "cosine", "cosine_with_restarts", "polynomial", "one_cycle"});
}

/// The curve of one_cycle.
enum class AnnealStrategy : uint8_t { cos, linear };
constexpr auto names_of(AnnealStrategy /*type*/) { return std::to_array<std::string_view>({"cos", "linear"}); }

/// The [lr_schedule] section. A key is read by the schedules that its documentation names.
struct LrScheduleConfig {
  LrShape name = LrShape::cosine;
  std::optional<int64_t> warmup_steps = 500;
  std::optional<double> warmup_fraction = std::nullopt;  ///< stands instead of warmup_steps
  std::optional<double> num_cycles = std::nullopt;
  double power = 1.0;
  double lr_end = 1e-7;
  double pct_start = 0.3;
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  bool three_phase = false;
};

void describe(config::Section& section, LrScheduleConfig& c);
/// Throws base::ConfigError when polynomial's lr_end is not below the base rate, and when not exactly one of
/// warmup_steps and warmup_fraction is set.
void validate(const LrScheduleConfig& c, double base_lr);

/// Updates over which the rate rises: warmup_steps, or warmup_fraction of `total_updates` rounded to the nearest whole
/// number, halves up.
int64_t warmup_updates(const LrScheduleConfig& config, int64_t total_updates);

/// Rate of the update that follows `update_index` applied ones (0 for the first) in a run of `total_updates`.
double learning_rate(const LrScheduleConfig& config, double base_lr, int64_t update_index, int64_t total_updates);

}  // namespace ddpm::optim
