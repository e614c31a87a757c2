// Opens a dataset on all ranks, closes it, and prints the seconds of both on the slowest rank, for opening.py.
//
//   bench_opening DATASET
#include <chrono>
#include <iostream>
#include <optional>

#include "comm/collectives.h"
#include "comm/mpi_session.h"
#include "data/dataset.h"

int main(int argc, char** argv) {
  using namespace ddpm;
  comm::MpiSession session(argc, argv);
  comm::Communicator& world = session.world();
  const auto seconds_of = [&](const auto& work) {
    world.barrier().wait();
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> mine = std::chrono::steady_clock::now() - start;
    return comm::all_reduce(world, mine.count(), comm::ReduceOp::max);
  };
  std::optional<data::Dataset> set;
  const double opening = seconds_of([&] { set.emplace(data::Dataset::open(world, base::Path(argv[argc - 1]))); });
  const double closing = seconds_of([&] { set->close(world); });
  if (world.rank() == 0) std::cout << opening << " " << closing << std::endl;
  session.finalize();
  return 0;
}
