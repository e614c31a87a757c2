#include "parallel/groups.h"

#include "comm/axis_communicator.h"

namespace ddpm::parallel {
namespace {

/// Null where the group along `axes` has all ranks of a group of size `whole`.
std::unique_ptr<comm::Communicator> smaller_group(comm::Communicator& all, const layout::Mesh& mesh, layout::Axes axes,
                                                  int64_t whole) {
  return mesh.degree(axes) == whole ? nullptr : comm::axis_communicator(all, mesh, axes);
}

}  // namespace

GradientGroups::GradientGroups(comm::Communicator& all, const layout::Mesh& mesh)
    : all_(all.duplicate()),
      island_(smaller_group(*all_, mesh, layout::kIsland, mesh.size())),
      gradients_(smaller_group(*all_, mesh, layout::kGradients, mesh.degree(layout::kIsland))),
      shard_(smaller_group(*all_, mesh, layout::Axis::shard, mesh.degree(layout::kGradients))),
      replicate_(smaller_group(*all_, mesh, layout::kReplicas, mesh.degree(layout::kGradients))) {}

}  // namespace ddpm::parallel
