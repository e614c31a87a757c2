// The update of state in host memory, by the CPU.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "parallel/offload.h"
#include "train/update_engine.h"

namespace ddpm::train {

class HostUpdate final : public UpdateEngine {
 public:
  explicit HostUpdate(const UpdateContext& context);

  void progress_changed() override {}
  void start(std::span<const double> sums) override;
  double finish(std::span<double> sums) override;

 private:
  double agree();

  UpdateContext context_;
  std::optional<parallel::OffloadedUpdate> offloaded_;
  std::vector<double> row_;  // the caller's sums, then what agree() adds to them
  double norm_ = 0.0;
};

}  // namespace ddpm::train
