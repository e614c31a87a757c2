#include "parallel/groups.h"

#include "comm/axis_communicator.h"

namespace ddpm::parallel {

DataParallelGroups::DataParallelGroups(comm::Communicator& all, const layout::Mesh& mesh)
    : all_(all.duplicate()),
      shard_(comm::axis_communicator(all, mesh, layout::Axis::shard)),
      replicate_(comm::axis_communicator(all, mesh, layout::Axis::replicate)) {}

}  // namespace ddpm::parallel
