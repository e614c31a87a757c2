#include "parallel/groups.h"

#include "comm/axis_communicator.h"

namespace ddpm::parallel {
namespace {

/// Null where the group along `axes` is all ranks.
std::unique_ptr<comm::Communicator> smaller_group(comm::Communicator& all, const layout::Mesh& mesh,
                                                  layout::Axes axes) {
  return mesh.degree(axes) == mesh.size() ? nullptr : comm::axis_communicator(all, mesh, axes);
}

}  // namespace

GradientGroups::GradientGroups(comm::Communicator& all, const layout::Mesh& mesh)
    : all_(all.duplicate()),
      shard_(smaller_group(*all_, mesh, layout::Axis::shard)),
      replicate_(smaller_group(*all_, mesh, layout::kReplicas)) {}

}  // namespace ddpm::parallel
