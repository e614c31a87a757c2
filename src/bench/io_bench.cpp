#include "bench/io_bench.h"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/input_file.h"
#include "comm/collectives.h"
#include "data/loader.h"
#include "layout/range.h"
#include "train/task.h"

namespace ddpm::bench {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{4} << 20U;

/// Runs `work`, which reads the set's files.
template <typename Work>
auto reading(const Work& work) {
  return base::read_as<base::DatasetError>(work);
}

int64_t bytes_of(const base::Path& path) {
  return reading([&] { return base::InputFile(path).stamp().size; });
}

class Bench {
 public:
  Bench(const train::Task& task, comm::Communicator& world, const IoBenchOptions& options)
      : task_(task), world_(world), options_(options) {
    const data::Dataset& dataset = task.dataset;
    files_ = dataset.files();
    const auto image_bytes = static_cast<int64_t>(dataset.image().bytes());
    const int64_t step = task.place.layout.global_size;
    const int64_t most = std::max(step, std::min(dataset.size(), options.max_bytes / image_bytes));
    steps_ = most / step;
    result_.images = steps_ * step;
    result_.image_bytes = image_bytes;
    const auto windows = task.windows_to_read();
    const data::Field& images = dataset.info().image_field();
    result_.read_bytes = static_cast<int64_t>(windows ? windows->read_of(images).bytes() : images.bytes());
  }

  IoBench run() {
    const int64_t blocks = std::min(result_.images, task_.dataset.size());
    const int64_t bytes = blocks * result_.image_bytes;
    int64_t stored = 0;  // fewer where images are compressed
    comm::agree(world_, [&] {
      for (const base::Path& path : files_) stored += bytes_of(path);
    });
    const int64_t raw = std::min(bytes, stored);
    result_.raw = measured(raw, [&] { read_raw(raw); });
    result_.blocks = measured(bytes, [&] { read_blocks(blocks); });
    result_.training = measured(result_.images * result_.read_bytes, [&] { read_batches(); });
    return result_;
  }

 private:
  /// Bytes per second of passes over `bytes` each.
  Spread measured(int64_t bytes, const std::function<void()>& pass) {
    std::vector<double> rates;
    for (int64_t i = 0; i < options_.repeats; ++i) {
      if (options_.cold) forget();
      world_.barrier().wait();
      const auto start = base::Clock::now();
      comm::agree(world_, pass);  // ends when the slowest rank does
      const double seconds = base::seconds_since(start);
      rates.push_back(static_cast<double>(bytes) / comm::all_reduce(world_, seconds, comm::ReduceOp::max));
    }
    return spread_of(std::move(rates));
  }

  void forget() {
    comm::agree(world_, [this] {
      for (const base::Path& path : files_) reading([&] { base::InputFile(path).forget_pages(); });
    });
  }

  /// This rank's share of the files' first `bytes`.
  void read_raw(int64_t bytes) const {
    std::vector<std::byte> buffer(kBlockBytes);
    const auto share = layout::even_part(bytes, world_.size(), world_.rank());
    int64_t file_begin = 0;
    for (const base::Path& path : files_) {
      const base::InputFile file = reading([&] { return base::InputFile(path); });
      const auto file_end = file_begin + file.stamp().size;
      const layout::Range mine = layout::intersect(share, {file_begin, file_end});
      for (int64_t at = mine.begin; at < mine.end; at += static_cast<int64_t>(kBlockBytes)) {
        const auto count = std::min(mine.end - at, static_cast<int64_t>(kBlockBytes));
        const auto part = std::span(buffer).first(static_cast<std::size_t>(count));
        reading([&] { file.read(static_cast<uint64_t>(at - file_begin), part); });
      }
      file_begin = file_end;
    }
  }

  void read_blocks(int64_t images) const {
    const int64_t block = std::max<int64_t>(1, static_cast<int64_t>(kBlockBytes) / result_.image_bytes);
    std::vector<std::byte> buffer(static_cast<std::size_t>(block * result_.image_bytes));
    const auto share = layout::even_part(images, world_.size(), world_.rank());
    for (int64_t first = share.begin; first < share.end; first += block) {
      const int64_t count = std::min(block, share.end - first);
      task_.dataset.read_block(first, count,
                               std::span(buffer).first(static_cast<std::size_t>(count * result_.image_bytes)));
    }
  }

  void read_batches() const {
    data::BatchLoader loader(task_.dataset, task_.order, task_.loading(0, steps_));
    for (int64_t i = 0; i < steps_ * task_.place.layout.accumulation_steps(); ++i) loader.next();
  }

  const train::Task& task_;
  comm::Communicator& world_;
  IoBenchOptions options_;
  std::vector<base::Path> files_;
  int64_t steps_ = 0;
  IoBench result_;
};

}  // namespace

IoBench bench_io(train::Configuration& configuration, const run::Runtime& runtime, const IoBenchOptions& options) {
  comm::Communicator& world = runtime.session.world();
  train::Task task = train::Task::make(configuration, runtime);
  const IoBench result = Bench(task, world, options).run();
  task.dataset.close(world);
  return result;
}

}  // namespace ddpm::bench
