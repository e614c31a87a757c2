// Reading numbers that lie beside the images and are no field of the set.
#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "comm/collectives.h"
#include "data/dataset_state.h"
#include "data/shard_check.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

/// The array of so many numbers; absent where the file has none of that name. Collective on a parallel file.
std::optional<h5::Array> numbers_in(const h5::File& file, const std::string& name, int64_t count) {
  if (!file.contains(name)) return std::nullopt;
  h5::Array array = file.array(name);
  file.expect_no_failure();
  if (array.shape().size() != 1) {
    throw DatasetError("{}: it has {} axes, wanted one number for each sample", array.label(), array.shape().size());
  }
  if (array.rows() != count) {
    throw DatasetError("{} has {} numbers, for {}", array.label(), array.rows(), base::counted(count, "sample"));
  }
  return array;
}

void broadcast(comm::Communicator& comm, std::vector<int64_t>& numbers) {
  const int64_t size = comm::all_reduce(comm, std::ssize(numbers), comm::ReduceOp::max);
  numbers.resize(static_cast<std::size_t>(size));
  if (size == 0) return;
  comm.broadcast({.data = numbers.data(), .count = size, .dtype = base::DType::i64}, 0).wait();
}

}  // namespace

std::vector<int64_t> Dataset::integers(comm::Communicator& comm, const std::string& name) const {
  const State& s = *state_;
  std::vector<int64_t> numbers;
  bool everywhere = true;
  const auto add = [&](const h5::File& file, std::size_t shard) {
    const int64_t count = s.info.shards[shard].count;
    const std::optional<h5::Array> array = numbers_in(file, name, count);
    everywhere = everywhere && array.has_value();
    if (!everywhere || comm.rank() != 0) return;
    const std::size_t before = numbers.size();
    numbers.resize(before + static_cast<std::size_t>(count));
    array->read_integers(0, count, std::span(numbers).subspan(before));
    if (!s.opened.empty() && !file.all_compared()) s.opened[shard].expect_unchanged(s.paths[shard]);
  };
  for (std::size_t f = 0; f < s.files.size(); ++f) comm::agree(comm, [&] { add(s.files[f], f); });
  comm::do_on_root(comm, [&] {
    for (std::size_t f = 0; s.files.empty() && f < s.paths.size(); ++f) {
      check_shard_file(s.paths[f], s.info.shards[f]);
      add(h5::File::open(s.paths[f]), f);
    }
    if (!everywhere) numbers.clear();
  });
  broadcast(comm, numbers);
  return numbers;
}

}  // namespace ddpm::data
