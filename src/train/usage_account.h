// Keeps account of what a run uses: RUN/usage.jsonl (observe/usage.h), with the energy that the nodes' counters tell.
//
// One rank per node reads the counters. They are summed over the nodes where all ranks are together anyway: when a
// checkpoint has become valid, and at the end. A line that cannot be written is a warning: it costs neither the
// checkpoint nor the run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <c10/core/Device.h>

#include "base/clock.h"
#include "device/energy_meter.h"
#include "engine/progress.h"
#include "observe/usage.h"
#include "run/run_folder.h"
#include "run/runtime.h"
#include "train/callback.h"

namespace ddpm::train {

class UsageAccount final : public Callback {
 public:
  /// Nothing is read or written before begin(). Everything outlives this object.
  UsageAccount(run::RunFolder& folder, const run::Runtime& runtime, int64_t total_steps);

  /// Names the images that this start trains and validates on, as UsageLine has them. Before begin().
  void name_sets(std::string images, std::string validation);

  /// The ranks compute on `device` from `progress` on, which counts the steps. With the folder locked. Collective.
  void begin(const engine::Progress& progress, c10::Device device);

  void saved(int64_t step) override;
  void close() override;
  /// Closes the account of a start that ends with an error, which all ranks have agreed on. Collective.
  void fail(const std::string& error);

 private:
  void try_to_append(observe::UsageEvent event, int64_t step);
  void append(observe::UsageEvent event, int64_t step);
  void sum_energy();

  run::RunFolder& folder_;
  run::Runtime runtime_;
  int64_t total_steps_;
  std::string images_ = {};
  std::string validation_ = {};
  const engine::Progress* progress_ = nullptr;
  base::Clock::time_point begun_ = {};
  observe::UsageLine line_ = {};
  std::unique_ptr<device::EnergyWatch> watch_;  ///< on one rank per node
  bool torn_ = false;                           ///< a line could not be written, and half of it may be there
};

}  // namespace ddpm::train
