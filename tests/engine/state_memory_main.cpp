// Prints the model state of one rank, counted and planned, for every ZeRO stage: one JSON object per
// line. For memory.py in tests/bench, with large models.
//
//   mpirun -np 4 train_state_memory CONFIG.toml [--section.key VALUE ...]
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file_system.h"
#include "comm/collectives.h"
#include "comm/mpi_session.h"
#include "engine/state_memory.h"
#include "train/config.h"

namespace {

using namespace ddpm;

void print_states(comm::MpiSession& session, const train::Config& config) {
  comm::Communicator& world = session.world();
  for (int64_t stage = 0; stage <= 3; ++stage) {
    engine::test::TrainingCase chosen;
    chosen.model = config.model;
    chosen.parallel = config.parallel;
    chosen.parallel.zero_stage = stage;
    chosen.mixed_precision = base::name_of(config.precision.mixed_precision);
    const auto bytes = engine::test::state_bytes(chosen, world);
    const int64_t least = comm::all_reduce(world, bytes.counted, comm::ReduceOp::min);
    const int64_t most = comm::all_reduce(world, bytes.counted, comm::ReduceOp::max);
    if (session.rank() != 0) continue;
    fmt::print(R"({{"ranks": {}, "precision": "{}", "stage": {}, "least": {}, "most": {}, "planned": {}}})"
               "\n",
               world.size(), chosen.mixed_precision, stage, least, most, bytes.planned);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    comm::MpiSession session(argc, argv);
    const std::vector<std::string> words(argv + 1, argv + argc);
    const auto files = base::posix_file_system();
    train::Configuration configuration;
    comm::agree(session.world(), [&] {
      if (words.empty()) throw base::ConfigError("usage: train_state_memory CONFIG.toml [--section.key VALUE ...]");
      configuration.load(*files, std::span(words).first(1), std::span(words).subspan(1));
    });
    print_states(session, configuration.values());
    session.finalize();
    return 0;
  } catch (const base::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
