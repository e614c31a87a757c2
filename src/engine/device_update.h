// The update of state in device memory: everything is launched before the host learns anything
// (optim/update_operators.h).
//
// Loss scale and counters are on the device (optim::UpdateRecord), so that a step can be launched before the host knows
// what became of the last one. The host's, of which checkpoints and log lines are made, go through the same transitions
// later, from what was copied home. Averages are updated in the same pass as the weights: their time counts as the
// optimizer's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include <ATen/core/Tensor.h>

#include "device/copy_stream.h"
#include "engine/update.h"
#include "optim/update_record.h"
#include "optim/update_schedule.h"
#include "parallel/parameter_arena.h"

namespace ddpm::engine {

class DeviceUpdate final : public Update {
 public:
  explicit DeviceUpdate(const UpdateContext& context);

  [[nodiscard]] int64_t most_under_way() const override { return std::ssize(slots_); }
  void progress_changed() override;
  void begin() override;
  [[nodiscard]] at::Tensor loss_factor() override;
  void add_sums(std::span<const double> votes) override;
  void start(const at::Tensor& losses) override;
  void submit() override;
  UpdateVerdict finish(std::span<double> sums) override;

 private:
  /// What travels with a step under way, in pinned memory, laid out as record_.
  struct StepInFlight {
    at::Tensor sent;
    at::Tensor home;
    device::CopyStream::Mark copied;
  };
  void send_counters();
  void sum_over_ranks();
  [[nodiscard]] StepInFlight& slot_of(int64_t step) {
    return slots_.at(static_cast<std::size_t>(step) % slots_.size());
  }

  UpdateContext context_;
  optim::UpdateSchedule schedule_;
  parallel::StateBuffer averages_;  // the pieces of the first, then those of the next
  parallel::StateBuffer working_;   // empty where they are the master weights
  at::Tensor scalars_;
  at::Tensor record_;  // optim::UpdateRecord, losses, votes, all of them summed; this rank's losses
  device::CopyStream copies_;
  std::array<StepInFlight, 2> slots_;
  int64_t submitted_ = 0;
  int64_t finished_ = 0;
  std::optional<optim::UpdateRecord> last_;  // record of the step that finished last
  bool stale_ = true;                        // the device does not know the host's counters yet
};

}  // namespace ddpm::engine
