// Prints what messages and all-reduces take: one JSON object per line, seconds of the slowest rank.
//
//   mpirun -np 2 comm_collective_times [REPEATS [MEBIBYTES...]]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/session.h"

namespace {

using namespace ddpm;
using Clock = std::chrono::steady_clock;

/// Seconds of `action` on the slowest rank.
template <typename Action>
double seconds_of(comm::Communicator& world, const Action& action) {
  world.barrier().wait();
  const auto start = Clock::now();
  action();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return comm::all_reduce(world, seconds, comm::ReduceOp::max);
}

/// A small message from rank 0 to rank 1 and back; the others wait at the barrier.
void ping_pong(comm::Communicator& world) {
  float value = 0.0F;
  const comm::Buffer buffer{&value, 1, base::DType::f32};
  const int other = 1 - world.rank();
  for (int turn = 0; turn < 2; ++turn) {
    if (world.rank() > 1) return;
    if (turn == world.rank()) {
      world.send(buffer, other, 0).wait();
    } else {
      world.receive(buffer, other, 0).wait();
    }
  }
}

void measure(comm::MpiSession& session, int repeats, const std::vector<double>& mebibytes) {
  comm::Communicator& world = session.world();
  const auto report = [&](const char* what, std::size_t bytes, const std::vector<double>& seconds) {
    if (session.rank() != 0) return;
    fmt::print("{{\"what\": \"{}\", \"ranks\": {}, \"bytes\": {}, \"seconds\": [{}]}}\n", what, world.size(), bytes,
               fmt::join(seconds, ", "));
  };
  std::vector<double> seconds;
  for (int i = 0; i < 10 * repeats; ++i) seconds.push_back(seconds_of(world, [&] { ping_pong(world); }) / 2.0);
  report("message", sizeof(float), seconds);
  for (const double size : mebibytes) {
    std::vector<float> values(static_cast<std::size_t>(size * 1024.0 * 1024.0 / sizeof(float)), 1.0F);
    const comm::Buffer buffer{values.data(), std::ssize(values), base::DType::f32};
    const auto all_reduce = [&] { world.all_reduce(buffer, comm::ReduceOp::sum).wait(); };
    all_reduce();  // connections, buffers
    seconds.clear();
    for (int i = 0; i < repeats; ++i) seconds.push_back(seconds_of(world, all_reduce));
    report("all-reduce", values.size() * sizeof(float), seconds);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    comm::MpiSession session(argc, argv);
    const int repeats = argc > 1 ? std::atoi(argv[1]) : 5;
    std::vector<double> mebibytes;
    for (int i = 2; i < argc; ++i) mebibytes.push_back(std::atof(argv[i]));
    if (mebibytes.empty()) mebibytes = {1.0, 4.0, 16.0};
    measure(session, repeats, mebibytes);
    session.finalize();
    return 0;
  } catch (const base::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
