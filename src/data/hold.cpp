#include "data/hold.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/machine_memory.h"
#include "comm/collectives.h"
#include "data/dataset_state.h"
#include "layout/range.h"

namespace ddpm::data {
namespace {

/// What is read at a time.
constexpr int64_t kBlockBytes = int64_t{4} << 20;

/// Images of a shard in memory.
class HeldRows : public Rows {
 public:
  /// `like` are those in the file.
  HeldRows(const Rows& like, std::span<const std::byte> values)
      : label_(like.label()), shape_(like.shape()), dtype_(like.dtype()), rows_(like.rows()), values_(values) {}

  [[nodiscard]] const std::string& label() const override { return label_; }
  [[nodiscard]] int64_t rows() const override { return rows_; }
  [[nodiscard]] const std::vector<int64_t>& shape() const override { return shape_; }
  [[nodiscard]] base::DType dtype() const override { return dtype_; }
  [[nodiscard]] uint64_t chunk_bytes() const override { return 0; }
  void read_rows(int64_t first, int64_t n, std::span<std::byte> out) const override {
    std::ranges::copy(
        values_.subspan(static_cast<std::size_t>(first) * row_bytes(), static_cast<std::size_t>(n) * row_bytes()),
        out.begin());
  }
  void read_window(int64_t row, std::span<const int64_t> begin, std::span<const int64_t> extent,
                   std::span<std::byte> out) const override {
    copy_window(values_.subspan(static_cast<std::size_t>(row) * row_bytes(), row_bytes()), shape_, begin, extent, out);
  }
  void expect_readable(int64_t /*first*/, int64_t /*n*/) const override {}

 private:
  std::string label_;
  std::vector<int64_t> shape_;
  base::DType dtype_;
  int64_t rows_;
  std::span<const std::byte> values_;
};

}  // namespace

void hold_in_memory(comm::Communicator& comm, Dataset& dataset) {
  const int64_t wanted = dataset.size() * static_cast<int64_t>(dataset.block_bytes());
  const int64_t available = comm::all_reduce(comm, base::read_machine_memory().available, comm::ReduceOp::min);
  comm::agree(comm, [&] {
    if (wanted <= available / 2) return;
    throw base::ConfigError(
        "data.hold: the images of {} take {} bytes, and {} are available on a node; wanted: at most half of them, or "
        "data.hold = false",
        dataset.path().string(), wanted, available);
  });
  dataset.hold(comm);
}

/// Ranks deal the images out. What each has read, and compared with its checksum, reaches all.
void Dataset::State::hold(comm::Communicator& comm) {
  std::vector<int64_t> begins;
  int64_t end = 0;
  for (const Field& field : fields) {
    begins.push_back(end);
    if (field.is_read_in_blocks()) end += info.count * static_cast<int64_t>(field.bytes());
  }
  held_images.emplace(comm, end);
  const bool shared = held_images->is_shared() || comm.size() == 1 || end < comm::SharedBytes::kWorthSharing;
  comm::agree(comm, [&] {
    if (shared) return;
    throw base::ConfigError("data.hold: the ranks of a node cannot share {} bytes: /dev/shm has not twice as much room",
                            end);
  });
  std::vector<comm::WrittenBytes> spread;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const auto row = static_cast<int64_t>(fields[f].bytes());
    for (int rank = 0; fields[f].is_read_in_blocks() && rank < comm.size(); ++rank) {
      const layout::Range share = layout::even_part(info.count, comm.size(), rank);
      if (!share.empty()) spread.push_back({begins[f] + share.begin * row, begins[f] + share.end * row, rank});
    }
  }
  comm::agree(comm, [&] {
    const layout::Range mine = layout::even_part(info.count, comm.size(), comm.rank());
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (fields[f].is_read_in_blocks())
        read_into(f, mine, held_images->bytes().subspan(static_cast<std::size_t>(begins[f])));
    }
    expect_unchanged();
  });
  held_images->spread(spread);
  std::vector<std::unique_ptr<Rows>> replaced;  // kept until all are: masks of missing values ask the images' rows
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (!fields[f].is_read_in_blocks()) continue;
    auto values = held_images->bytes().subspan(static_cast<std::size_t>(begins[f]));
    for (std::unique_ptr<Rows>& rows : columns[f].shards) {
      const std::size_t bytes = static_cast<std::size_t>(rows->rows()) * rows->row_bytes();
      replaced.push_back(std::exchange(rows, std::make_unique<HeldRows>(*rows, values.first(bytes))));
      values = values.subspan(bytes);
    }
    columns[f].chunk_bytes = 0;
  }
  compares_opened = false;  // nothing is read from them any more
  vouched->files.clear();
}

/// Images [range.begin, range.end) of a field into the values of all its images.
void Dataset::State::read_into(std::size_t field, layout::Range range, std::span<std::byte> values) const {
  const auto row = static_cast<int64_t>(fields[field].bytes());
  const int64_t block = std::max<int64_t>(1, kBlockBytes / row);
  for (int64_t first = range.begin; first < range.end; first += block) {
    const int64_t n = std::min(block, range.end - first);
    read(field, first, n, values.subspan(static_cast<std::size_t>(first * row), static_cast<std::size_t>(n * row)));
  }
}

void Dataset::hold(comm::Communicator& comm) { state_->hold(comm); }

}  // namespace ddpm::data
