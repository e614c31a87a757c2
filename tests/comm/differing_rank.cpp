// `differing_rank HOW`: a rank that calls other collectives than the others, which collective_check.cpp has to find.
#include <array>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include <mpi.h>

#include "comm/communicator.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_session.h"

namespace {

using ddpm::base::DType;

void differ(ddpm::comm::Communicator& world, std::string_view how) {
  const bool first = world.rank() == 0;
  if (how == "other-operation") {
    std::array<double, 3> numbers{};
    (first ? world.barrier() : world.broadcast({numbers.data(), 3, DType::f64}, 0)).wait();
  } else if (how == "other-count") {
    std::array<float, 2> numbers{};
    world.all_reduce({numbers.data(), first ? 2 : 1, DType::f32}, ddpm::comm::ReduceOp::sum).wait();
  } else if (how == "other-reduction") {
    std::array<float, 2> numbers{};
    const auto op = first ? ddpm::comm::ReduceOp::sum : ddpm::comm::ReduceOp::max;
    world.all_reduce({numbers.data(), 2, DType::f32}, op).wait();
  } else if (how == "other-type" || how == "other-half") {
    std::array<float, 2> numbers{};
    const bool half = how == "other-half";
    const DType type = half ? (first ? DType::f16 : DType::bf16) : (first ? DType::f32 : DType::i32);
    world.all_reduce({numbers.data(), 2, type}, ddpm::comm::ReduceOp::sum).wait();
  } else if (how == "ring-type" || how == "ring-reduction") {
    constexpr int64_t kRing = int64_t{1} << 16;  // elements enough to travel in a ring
    std::vector<float> numbers(kRing);
    const bool by_type = how == "ring-type";
    const auto op = first || by_type ? ddpm::comm::ReduceOp::sum : ddpm::comm::ReduceOp::max;
    world.all_reduce({numbers.data(), kRing, first || !by_type ? DType::f32 : DType::i32}, op).wait();
  } else if (how == "window" || how == "freed-window") {
    MPI_Win window = MPI_WIN_NULL;
    void* memory = nullptr;
    const auto make = [&] {
      MPI_Win_allocate_shared(first ? 8 : 0, 1, MPI_INFO_NULL, ddpm::comm::mpi_handle(world), &memory, &window);
    };
    if (first || how == "freed-window") make();
    if (first && how == "freed-window") MPI_Win_free(&window);
    world.barrier().wait();
  } else if (first) {
    world.barrier().wait();
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(60));
  }
}

}  // namespace

int main(int argc, char** argv) {
  ddpm::comm::MpiSession session(argc, argv, {});
  session.world().barrier().wait();
  differ(session.world(), argv[1]);
  session.finalize();
  return 0;
}
