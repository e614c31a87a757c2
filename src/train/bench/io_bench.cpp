#include "train/bench/io_bench.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "data/loader.h"
#include "layout/range.h"
#include "train/setup.h"

namespace ddpm::train::bench {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{4} << 20U;

/// An open file to read.
class Descriptor {
 public:
  explicit Descriptor(const base::Path& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw base::DatasetError("{}: cannot open: {}", path.string(), std::strerror(errno));
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void forget_pages() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED); }
  void read_at(uint64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw base::DatasetError("{}: cannot read at byte {}", path_.string(), offset);
      out = out.subspan(static_cast<std::size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
  }

 private:
  base::Path path_;
  int fd_;
};

class Bench {
 public:
  Bench(const Setup& setup, comm::Communicator& world, const IoBenchOptions& options)
      : setup_(setup), world_(world), options_(options) {
    const data::Dataset& dataset = setup.dataset;
    if (std::filesystem::is_directory(dataset.path())) {
      for (const data::ShardInfo& shard : dataset.info().shards) files_.push_back(dataset.path() / shard.file);
    } else {
      files_.push_back(dataset.path());
    }
    const auto image_bytes = static_cast<int64_t>(dataset.image().bytes());
    const int64_t step = setup.place.layout.global_size;
    const int64_t most = std::max(step, std::min(dataset.size(), options.max_bytes / image_bytes));
    steps_ = most / step;
    result_.images = steps_ * step;
    result_.image_bytes = image_bytes;
  }

  IoBench run() {
    const int64_t blocks = std::min(result_.images, setup_.dataset.size());
    const int64_t bytes = blocks * result_.image_bytes;
    int64_t stored = 0;  // fewer where images are compressed
    for (const base::Path& path : files_) stored += static_cast<int64_t>(std::filesystem::file_size(path));
    const int64_t raw = std::min(bytes, stored);
    result_.raw = measured(raw, [&] { read_raw(raw); });
    result_.blocks = measured(bytes, [&] { read_blocks(blocks); });
    result_.training = measured(result_.images * result_.image_bytes, [&] { read_batches(); });
    return result_;
  }

 private:
  /// Of `bytes` per pass, those per second.
  Spread measured(int64_t bytes, const std::function<void()>& pass) {
    using Clock = std::chrono::steady_clock;
    std::vector<double> rates;
    for (int64_t i = 0; i < options_.repeats; ++i) {
      if (options_.cold) forget();
      world_.barrier().wait();
      const auto start = Clock::now();
      comm::agree(world_, pass);  // ends when the slowest rank does
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      rates.push_back(static_cast<double>(bytes) / comm::all_reduce(world_, seconds, comm::ReduceOp::max));
    }
    return spread_of(std::move(rates));
  }

  void forget() {
    comm::agree(world_, [this] {
      for (const base::Path& path : files_) Descriptor(path).forget_pages();
    });
  }

  /// This rank's share of the files' first `bytes`.
  void read_raw(int64_t bytes) const {
    std::vector<std::byte> buffer(kBlockBytes);
    const auto share = layout::even_part(bytes, world_.size(), world_.rank());
    int64_t file_begin = 0;
    for (const base::Path& path : files_) {
      const auto file_end = file_begin + static_cast<int64_t>(std::filesystem::file_size(path));
      const layout::Range mine = layout::intersect(share, {file_begin, file_end});
      if (!mine.empty()) {
        const Descriptor file(path);
        for (int64_t at = mine.begin; at < mine.end; at += static_cast<int64_t>(kBlockBytes)) {
          const auto count = std::min(mine.end - at, static_cast<int64_t>(kBlockBytes));
          file.read_at(static_cast<uint64_t>(at - file_begin),
                       std::span(buffer).first(static_cast<std::size_t>(count)));
        }
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
      setup_.dataset.read_block(first, count,
                                std::span(buffer).first(static_cast<std::size_t>(count * result_.image_bytes)));
    }
  }

  void read_batches() const {
    const layout::BatchLayout& layout = setup_.place.layout;
    data::BatchLoader loader(
        setup_.dataset, setup_.order,
        {.layout = layout, .rank = world_.rank(), .end_step = steps_, .prefetch = setup_.config.data.prefetch});
    for (int64_t i = 0; i < steps_ * layout.accumulation_steps(); ++i) loader.next();
  }

  const Setup& setup_;
  comm::Communicator& world_;
  IoBenchOptions options_;
  std::vector<base::Path> files_;
  int64_t steps_ = 0;
  IoBench result_;
};

}  // namespace

IoBench bench_io(Configuration& configuration, const Runtime& runtime, const IoBenchOptions& options) {
  comm::Communicator& world = runtime.session.world();
  Setup setup = Setup::make(configuration, runtime);
  const IoBench result = Bench(setup, world, options).run();
  setup.dataset.close(world);
  return result;
}

}  // namespace ddpm::train::bench
