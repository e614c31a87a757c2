// What ranks that hold other channels of the same blocks (parallel.tensor_size) have alike: parameters that are not
// cut.
//
// Each of these ranks sums their gradients over a group of its own. Sums of three or more depend on the order in which
// they are added, and a library that finds its rings and trees for each group, as NCCL does, promises no order. So the
// first rank's sums become those of all.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "layout/mesh.h"
#include "parallel/parameter_arena.h"

namespace ddpm::parallel {

class UncutPieces {
 public:
  /// `state`: a buffer of the arena, whose sums over the ranks along `summed` are to be alike. `all`: the ranks of
  /// `mesh`, where the buffer's memory is. The tensors are kept. Collective.
  UncutPieces(const ParameterArena& arena, const StateBuffer& state, comm::Communicator& all, const layout::Mesh& mesh,
              layout::Axes summed);

  /// Replaces the values by the first rank's; does nothing where two groups cannot have added in different orders.
  /// Collective.
  void take_first();

 private:
  std::unique_ptr<comm::Communicator> ranks_;  // null: nothing to do
  std::vector<StateBuffer> packets_;           // what travels together
};

}  // namespace ddpm::parallel
