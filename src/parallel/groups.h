// A communicator for each axis of the data-parallel ranks (layout/mesh.h): shard groups of neighbouring ranks hold one
// copy of the state between them, and the ranks of equal place in their groups hold the same part of it.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "layout/mesh.h"

namespace ddpm::parallel {

class DataParallelGroups {
 public:
  /// Collective over `all`, the ranks of `mesh`.
  DataParallelGroups(comm::Communicator& all, const layout::Mesh& mesh);

  [[nodiscard]] comm::Communicator& all() const { return *all_; }
  /// The ranks that share one copy of the state.
  [[nodiscard]] comm::Communicator& shard() const { return *shard_; }
  /// The ranks that hold the same part.
  [[nodiscard]] comm::Communicator& replicate() const { return *replicate_; }

 private:
  std::unique_ptr<comm::Communicator> all_;
  std::unique_ptr<comm::Communicator> shard_;
  std::unique_ptr<comm::Communicator> replicate_;
};

}  // namespace ddpm::parallel
