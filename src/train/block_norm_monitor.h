// Norms of gradient and weights, block by block of the model, on request (logging.norms).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "layout/mesh.h"
#include "parallel/parameter_arena.h"
#include "train/callback.h"
#include "train/logging.h"

namespace ddpm::train {

/// The block of a parameter: "conv_in", or "down_blocks.0" where the blocks of a kind are numbered.
std::string block_of(const std::string& parameter);

/// Notes the norms in each logged step. It takes them of what each rank keeps of the flat buffers, and the squares are
/// added exactly, so that neither the number of ranks nor the ZeRO stage changes a bit where the values are the same.
class BlockNormMonitor final : public Callback {
 public:
  /// `logging` says which steps are logged; `wanted`: logging.norms. Everything outlives this object.
  BlockNormMonitor(bool wanted, const Logging& logging, const parallel::ParameterArena& arena, const layout::Mesh& mesh,
                   comm::Communicator& world);

  [[nodiscard]] bool due(const FinishedStep& step) const override { return wanted_ && logging_.due(step); }
  void run(FinishedStep& step) override;

 private:
  [[nodiscard]] observe::NamedValues norms(const parallel::StateBuffer& pieces, double factor) const;

  bool wanted_;
  const Logging& logging_;
  const parallel::ParameterArena& arena_;
  comm::Communicator& world_;
  bool counts_;                      // this rank is the one of its replicas whose squares count
  std::vector<std::string> blocks_;  // in the order of execution
  std::vector<std::size_t> block_of_entry_;
};

}  // namespace ddpm::train
