// The numbers by which a run is judged, from what its folder holds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/divergence.h"
#include "report/run_record.h"
#include "report/stats.h"
#include "report/validations.h"

namespace ddpm::report {

enum class Phase : uint8_t {
  training,     ///< somebody holds the run's lock, and renews it
  finished,     ///< the model is written, or a program of one's own has made all steps; nobody trains on
  interrupted,  ///< neither
};
constexpr auto names_of(Phase /*type*/) {
  return std::to_array<std::string_view>({"training", "finished", "interrupted"});
}

struct Measures {
  Phase phase = Phase::interrupted;
  int64_t step = 0;
  std::optional<int64_t> total = {};
  std::optional<Trend> loss = {};
  std::optional<Divergence> divergence = {};
  std::optional<int64_t> before_divergence = {};  ///< step of the newest whole checkpoint from before it
  Unfinite unfinite = {};                         ///< losses at the end of the log that are not finite
  std::optional<Validations> validation = {};
  bool best_kept = false;        ///< the checkpoint of the best validation is whole
  int64_t other_images = 0;      ///< up to this step other images were trained on
  int64_t other_validation = 0;  ///< up to this step another set was validated on
  int64_t recent = 0;            ///< logged steps in the last part
  int64_t skipped = 0;           ///< recent steps whose gradient was not finite
  double loss_scale = 1.0;
  double learning_rate_share = 1.0;                    ///< learning rate of the last step, over the highest so far
  bool learning_rate_falls = true;                     ///< by its schedule, until the run's last step
  bool learning_rate_rises = false;                    ///< over the last two logged steps
  std::optional<double> images_per_second = {};        ///< median of the last part, on the last start's hardware
  std::optional<double> first_images_per_second = {};  ///< median of the first tenth on the same hardware
  std::optional<double> data_wait = {};                ///< mean share of the last part
  std::optional<double> comm_wait = {};
  std::optional<double> seconds_left = {};
  std::optional<double> lock_age = {};          ///< seconds since the lock was renewed
  bool owner_ended = false;                     ///< the process that holds the lock has ended on this host
  std::optional<double> log_age = {};           ///< seconds since the last step was logged
  std::optional<double> checkpoint_age = {};    ///< seconds since the newest whole checkpoint was written
  std::optional<int64_t> checkpoint_step = {};  ///< step of the newest whole checkpoint
  std::string refusal = {};                     ///< why another start would be refused; "": it would not
  bool has_model = false;                       ///< RUN/model is there
  int64_t patience = 0;                         ///< early_stopping.patience
  std::string failure = {};                     ///< what the last start failed with; "": nothing that is known
};

/// `now`: seconds since 1970.
Measures measures_of(const RunRecord& run, double now);

/// One column of the metrics.
std::vector<double> column(const RunRecord& run, double observe::StepMetrics::*member);
std::vector<int64_t> steps_of(const RunRecord& run);

}  // namespace ddpm::report
