#include "support/fake_communicator.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace ddpm::test {
namespace {

std::size_t bytes_of(int64_t elements, base::DType dtype) {
  return static_cast<std::size_t>(elements) * base::size_of(dtype);
}

}  // namespace

void TrafficCounts::add(Operation operation, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Traffic& traffic = counts_.at(static_cast<std::size_t>(operation));
  ++traffic.calls;
  traffic.bytes += bytes;
}

Traffic TrafficCounts::operator[](Operation operation) const {
  const std::lock_guard lock(mutex_);
  return counts_.at(static_cast<std::size_t>(operation));
}

FakeCommunicator::FakeCommunicator(int rank, int size, TrafficCounts& counts, SplitRule rule)
    : comm::Communicator(rank, size), counts_(counts), rule_(std::move(rule)) {
  DDPM_CHECK(rank >= 0 && rank < size, "rank {} of {}", rank, size);
}

comm::Work FakeCommunicator::count(Operation operation, int64_t elements, base::DType dtype) {
  counts_.add(operation, static_cast<int64_t>(bytes_of(elements, dtype)));
  return {};
}

comm::Work FakeCommunicator::all_reduce(comm::Buffer in_out, comm::ReduceOp /*op*/) {
  return count(Operation::all_reduce, in_out.count, in_out.dtype);
}

comm::Work FakeCommunicator::reduce_scatter(comm::ConstBuffer in, comm::Buffer out, comm::ReduceOp /*op*/) {
  DDPM_CHECK(in.dtype == out.dtype && in.count == out.count * size(), "{} elements in, {} out, {} ranks", in.count,
             out.count, size());
  if (in.data != nullptr && out.data != nullptr) {
    const auto part = bytes_of(out.count, out.dtype);
    std::memmove(out.data, static_cast<const std::byte*>(in.data) + static_cast<std::size_t>(rank()) * part, part);
  }
  return count(Operation::reduce_scatter, in.count, in.dtype);
}

comm::Work FakeCommunicator::all_gather(comm::ConstBuffer in, comm::Buffer out) {
  DDPM_CHECK(in.dtype == out.dtype && out.count == in.count * size(), "{} elements in, {} out, {} ranks", in.count,
             out.count, size());
  if (in.data != nullptr && out.data != nullptr) {
    const auto part = bytes_of(in.count, in.dtype);
    for (int i = 0; i < size(); ++i) {
      std::memmove(static_cast<std::byte*>(out.data) + static_cast<std::size_t>(i) * part, in.data, part);
    }
  }
  return count(Operation::all_gather, out.count, out.dtype);
}

comm::Work FakeCommunicator::broadcast(comm::Buffer in_out, int root) {
  DDPM_CHECK(root >= 0 && root < size(), "root {} of {} ranks", root, size());
  return count(Operation::broadcast, in_out.count, in_out.dtype);
}

comm::Work FakeCommunicator::barrier() { return count(Operation::barrier, 0, base::DType::u8); }

comm::Work FakeCommunicator::send(comm::ConstBuffer in, int to, int /*tag*/) {
  DDPM_CHECK(to >= 0 && to < size(), "to rank {} of {}", to, size());
  return count(Operation::send, in.count, in.dtype);
}

comm::Work FakeCommunicator::receive(comm::Buffer out, int from, int /*tag*/) {
  DDPM_CHECK(from >= 0 && from < size(), "from rank {} of {}", from, size());
  if (out.data != nullptr) std::memset(out.data, 0, bytes_of(out.count, out.dtype));
  return count(Operation::receive, out.count, out.dtype);
}

std::unique_ptr<comm::Communicator> FakeCommunicator::split(int color, int key) {
  counts_.add(Operation::split, 0);
  const Place place = rule_ ? rule_(color, key) : Place{rank(), size()};
  return std::make_unique<FakeCommunicator>(place.rank, place.size, counts_, rule_);
}

std::unique_ptr<comm::Communicator> FakeCommunicator::duplicate() {
  counts_.add(Operation::duplicate, 0);
  return std::make_unique<FakeCommunicator>(rank(), size(), counts_, rule_);
}

std::unique_ptr<comm::Communicator> FakeCommunicator::alone() {
  return std::make_unique<FakeCommunicator>(0, 1, counts_);
}

}  // namespace ddpm::test
