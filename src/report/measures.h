// The numbers by which a run is judged, from what its folder holds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/run_record.h"
#include "report/stats.h"

namespace ddpm::report {

enum class Phase : uint8_t {
  training,     ///< somebody holds the run's lock, and renews it
  finished,     ///< the model is written, or a program of one's own has made all steps; nobody trains on
  interrupted,  ///< neither
};
constexpr auto names_of(Phase /*type*/) {
  return std::to_array<std::string_view>({"training", "finished", "interrupted"});
}

/// The trends look at this part of what was logged, the last one.
inline constexpr double kRecentShare = 0.3;

struct Validations {
  int64_t count = 0;
  double last = 0.0;
  double best = 0.0;
  int64_t best_step = 0;
  int64_t since_best = 0;           ///< validations after the best one
  std::optional<Trend> trend = {};  ///< trend of the last validation losses
  /// What the validation loss lies above the mean training loss of the steps around it, now and at the best one.
  std::optional<Interval> gap = {};
  std::optional<Interval> gap_at_best = {};
};

struct Measures {
  Phase phase = Phase::interrupted;
  int64_t step = 0;
  std::optional<int64_t> total = {};
  std::optional<Trend> loss = {};
  std::optional<Validations> validation = {};
  int64_t recent = 0;   ///< logged steps in the last part
  int64_t skipped = 0;  ///< recent steps whose gradient was not finite
  double loss_scale = 1.0;
  double learning_rate_share = 1.0;                    ///< learning rate of the last step, over the highest so far
  bool learning_rate_falls = true;                     ///< by its schedule, until the run's last step
  std::optional<double> images_per_second = {};        ///< median of the last part
  std::optional<double> first_images_per_second = {};  ///< median of the first tenth on the same hardware
  std::optional<double> data_wait = {};                ///< mean share of the last part
  std::optional<double> comm_wait = {};
  std::optional<double> seconds_left = {};
  std::optional<double> lock_age = {};          ///< seconds since the lock was renewed
  std::optional<double> checkpoint_age = {};    ///< seconds since the newest whole checkpoint was written
  std::optional<int64_t> checkpoint_step = {};  ///< step of the newest whole checkpoint
  std::string refusal = {};                     ///< why another start would be refused; "": it would not
  bool has_model = false;                       ///< RUN/model is there
  std::string failure = {};                     ///< what the last start failed with; "": nothing that is known
};

/// `now`: seconds since 1970.
Measures measures_of(const RunRecord& run, double now);

/// One column of the metrics.
std::vector<double> column(const RunRecord& run, double observe::StepMetrics::*member);
std::vector<int64_t> steps_of(const RunRecord& run);

}  // namespace ddpm::report
