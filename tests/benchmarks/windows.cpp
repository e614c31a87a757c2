// Reads random windows of the first field of a file once, for windows.py.
//
//   bench_windows FILE SIDE COUNT SEED raw|loader
//
// COUNT windows of SIDE × SIDE pixels that go around both axes, a global batch of 16, by all ranks together: with a
// pread for each row of pixels (raw), or as training reads them (loader); `raw` and `loader` read the same windows.
// Prints the seconds of the slowest rank, and a sum over the windows' CRC-32C and places in the run, which is the same
// for the same bytes on any number of ranks.
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/input_file.h"
#include "comm/collectives.h"
#include "comm/mpi_session.h"
#include "data/loader.h"
#include "h5/file.h"

namespace {

using namespace ddpm;
using Bytes = std::vector<std::byte>;

constexpr int64_t kGlobal = 16;

uint64_t digest_of(std::span<const std::byte> values, int64_t slot) {
  const uint32_t place = base::crc32c(std::as_bytes(std::span(&slot, 1)));
  return base::crc32c(values, place);
}

struct Job {
  data::ImageWindows windows;
  int64_t count = 0;
};

/// What training does, without a model.
uint64_t read_as_training(const data::Dataset& set, const Job& job, comm::Communicator& world) {
  const data::ImageOrder order(set.size(), 1, {});
  const auto layout = layout::BatchLayout::make(kGlobal, kGlobal / world.size(), world.size());
  data::BatchLoader loader(
      set, order,
      {.layout = layout, .rank = world.rank(), .end_step = job.count / kGlobal, .prefetch = 2, .windows = job.windows});
  uint64_t digest = 0;
  for (int64_t step = 0; step < job.count / kGlobal; ++step) {
    const data::MicroBatch batch = loader.next();
    const std::span<const std::byte> values(batch.values.front());
    const std::size_t bytes = values.size() / batch.indices.size();
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      const int64_t slot = batch.step * kGlobal + batch.positions.begin + static_cast<int64_t>(i);
      digest += digest_of(values.subspan(i * bytes, bytes), slot);
    }
  }
  return digest;
}

/// A pread for each row, or two where the window goes around.
void read_rows(const base::InputFile& file, uint64_t offset, const Job& job, const std::vector<int64_t>& begin,
               std::span<std::byte> out) {
  const auto pixel = static_cast<int64_t>(job.windows.whole.bytes()) / job.windows.whole.pixels();
  const int64_t height = job.windows.whole.height;
  const int64_t width = job.windows.whole.width;
  const int64_t side = job.windows.sides.front();
  const int64_t inside = std::min(side, width - begin[1]);
  for (int64_t y = 0; y < side; ++y) {
    const int64_t row = (begin[0] + y) % height * width;
    const auto line = out.subspan(static_cast<std::size_t>(y * side * pixel), static_cast<std::size_t>(side * pixel));
    file.read(offset + static_cast<uint64_t>((row + begin[1]) * pixel),
              line.first(static_cast<std::size_t>(inside * pixel)));
    if (inside == side) continue;
    file.read(offset + static_cast<uint64_t>(row * pixel), line.subspan(static_cast<std::size_t>(inside * pixel)));
  }
}

uint64_t read_raw(const base::Path& path, uint64_t offset, const Job& job, comm::Communicator& world) {
  const base::InputFile file(path);
  const int64_t side = job.windows.sides.front();
  const auto pixel = job.windows.whole.bytes() / static_cast<std::size_t>(job.windows.whole.pixels());
  Bytes values(static_cast<std::size_t>(side * side) * pixel);
  const int64_t share = kGlobal / world.size();
  uint64_t digest = 0;
  for (int64_t slot = 0; slot < job.count; ++slot) {
    if (slot % kGlobal / share != world.rank()) continue;
    read_rows(file, offset, job, job.windows.place(slot / kGlobal, slot % kGlobal), values);
    digest += digest_of(values, slot);
  }
  return digest;
}

}  // namespace

int main(int argc, char** argv) {
  comm::MpiSession session(argc, argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  comm::Communicator& world = session.world();
  const base::Path path = arguments.at(0);
  const bool raw = arguments.at(4) == "raw";
  data::Dataset set = data::Dataset::open(world, path);
  const std::vector<int64_t> sides = set.image().sides();
  const int64_t side = std::stoll(arguments.at(1));
  Job job{.windows = {.whole = set.image(),
                      .sides = {side, side},
                      .wraps = {true, true},
                      .place = data::drawn_places(sides, std::stoull(arguments.at(3)), base::Stream::patch)},
          .count = std::stoll(arguments.at(2))};
  const uint64_t offset = h5::File::open(path).array("/images").file_offset().value();
  world.barrier().wait();
  const auto start = std::chrono::steady_clock::now();
  const uint64_t part = raw ? read_raw(path, offset, job, world) : read_as_training(set, job, world);
  const std::chrono::duration<double> mine = std::chrono::steady_clock::now() - start;
  const double seconds = comm::all_reduce(world, mine.count(), comm::ReduceOp::max);
  const int64_t digest = comm::all_reduce(world, static_cast<int64_t>(part), comm::ReduceOp::sum);
  if (world.rank() == 0) std::cout << seconds << " " << digest << std::endl;
  set.close(world);
  session.finalize();
  return 0;
}
