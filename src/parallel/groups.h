// Communicators of the ranks that sum their gradients (layout/mesh.h): those of a shard group hold one copy of the
// state between them, and the ranks of equal place in their groups, and of all tiles of an image, hold the same part of
// it. Ranks that hold other channels of the same blocks sum theirs beside them.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "layout/mesh.h"

namespace ddpm::parallel {

class GradientGroups {
 public:
  /// Communicators of its own, one for axes of equal groups and none for groups of one rank: each that NCCL makes takes
  /// memory of the device. Collective over `all`, the ranks of `mesh`.
  GradientGroups(comm::Communicator& all, const layout::Mesh& mesh);

  /// Every rank.
  [[nodiscard]] comm::Communicator& all() const { return *all_; }
  /// The ranks that make one update.
  [[nodiscard]] comm::Communicator& island() const { return island_ ? *island_ : *all_; }
  /// The ranks that sum one gradient.
  [[nodiscard]] comm::Communicator& gradients() const { return gradients_ ? *gradients_ : island(); }
  /// The ranks that share one copy of the state.
  [[nodiscard]] comm::Communicator& shard() const { return shard_ ? *shard_ : gradients(); }
  /// The ranks that hold the same part.
  [[nodiscard]] comm::Communicator& replicate() const { return replicate_ ? *replicate_ : gradients(); }

 private:
  std::unique_ptr<comm::Communicator> all_;
  std::unique_ptr<comm::Communicator> island_;     // null: all ranks
  std::unique_ptr<comm::Communicator> gradients_;  // null: those of island()
  std::unique_ptr<comm::Communicator> shard_;      // null: those of gradients()
  std::unique_ptr<comm::Communicator> replicate_;  // null: those of gradients()
};

}  // namespace ddpm::parallel
