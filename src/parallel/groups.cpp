#include "parallel/groups.h"

namespace ddpm::parallel {

DataParallelGroups::DataParallelGroups(comm::Communicator& all, const DataParallelSizes& sizes)
    : all_(all.duplicate()),
      shard_(all.split(static_cast<int>(all.rank() / sizes.shard), all.rank())),
      replicate_(all.split(static_cast<int>(all.rank() % sizes.shard), all.rank())) {}

}  // namespace ddpm::parallel
