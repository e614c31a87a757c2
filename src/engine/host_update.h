// The update of state in host memory, by the CPU.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/update.h"
#include "parallel/offload.h"

namespace ddpm::engine {

class HostUpdate final : public Update {
 public:
  explicit HostUpdate(const UpdateContext& context);

  [[nodiscard]] int64_t most_under_way() const override { return 1; }
  void progress_changed() override {}
  void begin() override {}
  [[nodiscard]] at::Tensor loss_factor() override;
  void add_sums(std::span<const double> votes) override { votes_.assign(votes.begin(), votes.end()); }
  void start(const at::Tensor& losses) override;
  void submit() override {}
  UpdateVerdict finish(std::span<double> sums) override;

 private:
  double agree();

  UpdateContext context_;
  std::optional<parallel::OffloadedUpdate> offloaded_;
  std::vector<double> votes_;
  std::vector<double> row_;  // losses, votes, then what agree() adds to them
  UpdateVerdict verdict_;
};

}  // namespace ddpm::engine
