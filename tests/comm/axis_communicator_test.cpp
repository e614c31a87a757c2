#include "comm/axis_communicator.h"

#include "comm/collectives.h"
#include "comm/mpi_calls.h"
#include "support/mpi_test.h"

namespace ddpm::comm {
namespace {

using layout::Axis;

// The ranks that find each other in a communicator are those of the mesh's group, in the order of their coordinates.
TEST(AxisCommunicator, HoldsTheGroupOfThisRank) {
  Communicator& world = test::world();
  const int64_t rank = world.rank();
  for (int64_t shard = 1; shard <= world.size(); ++shard) {
    if (world.size() % shard != 0) continue;
    const layout::Mesh mesh(
        {{.axis = Axis::replicate, .ranks = world.size() / shard}, {.axis = Axis::shard, .ranks = shard}},
        world.size());
    for (const layout::Axes axes : {layout::Axes(Axis::replicate), layout::Axes(Axis::shard), layout::kDataParallel}) {
      const int before = test::mpi_calls().communicators;
      const auto comm = axis_communicator(world, mesh, axes);
      EXPECT_EQ(test::mpi_calls().communicators - before, mesh.degree(axes) > 1 ? 1 : 0) << "a group of one is free";
      EXPECT_EQ(comm->size(), mesh.degree(axes));
      EXPECT_EQ(comm->rank(), mesh.coordinate(rank, axes));
      const std::vector<std::string> found = all_gather(*comm, std::to_string(rank));
      std::vector<std::string> wanted;
      for (const int64_t member : mesh.ranks(mesh.group(rank, axes), axes)) wanted.push_back(std::to_string(member));
      EXPECT_EQ(found, wanted);
    }
  }
}

}  // namespace
}  // namespace ddpm::comm
