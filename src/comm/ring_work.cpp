#include "comm/ring_work.h"

#include <algorithm>
#include <thread>

namespace ddpm::comm {

namespace {

const char* ring_name(RingWork::Kind kind) {
  switch (kind) {
    case RingWork::Kind::all_reduce:
      return "ring all_reduce";
    case RingWork::Kind::reduce_scatter:
      return "ring reduce_scatter";
    case RingWork::Kind::all_gather:
      break;
  }
  return "ring all_gather";
}

}  // namespace

RingWork::RingWork(MPI_Comm comm, int tag, Kind kind, std::byte* data, int64_t count, const RingElements& elements,
                   int64_t message_elements)
    : comm_(comm), tag_(tag), kind_(kind), data_(data), count_(count), elements_(elements) {
  if (ddpm_ring_begins != nullptr) ddpm_ring_begins(comm, ring_name(kind), count, elements.type, elements.op);
  int ranks = 1;
  check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  ranks_ = ranks;
  const int64_t largest_part = (count + ranks_ - 1) / ranks_;
  pieces_ = std::max<int64_t>(1, (largest_part + message_elements - 1) / message_elements);
  slot_elements_ = (largest_part + pieces_ - 1) / pieces_;
  messages_ = pieces_ * (ranks_ - 1) * (kind == Kind::all_reduce ? 2 : 1);
  sends_.reserve(static_cast<std::size_t>(messages_));
  receives_.assign(kAhead, MPI_REQUEST_NULL);
  slots_.resize(static_cast<std::size_t>(std::min(kAhead, reduced_messages()) * slot_elements_) * elements.bytes);
  receive_ahead();
  for (int64_t first = 0; first < std::min(pieces_, messages_); ++first) send(first);
}

/// In step t, rank r sends part r - 1 - t and receives part r - 2 - t (modulo the number of ranks), so that after n - 1
/// steps the last part that it received and reduced is its own. A gather begins there.
RingWork::RingMessage RingWork::piece(int64_t message, int64_t behind) const {
  const int64_t step = message / pieces_ + (kind_ == Kind::all_gather ? ranks_ - 1 : 0);
  const int64_t part = ((rank_ - behind - step) % ranks_ + ranks_) % ranks_;
  const int64_t begin = count_ * part / ranks_;
  const int64_t size = count_ * (part + 1) / ranks_ - begin;
  const int64_t index = message % pieces_;
  const int64_t first = begin + size * index / pieces_;
  const int64_t last = begin + size * (index + 1) / pieces_;
  return {data_ + static_cast<std::size_t>(first) * elements_.bytes, static_cast<int>(last - first)};
}

std::byte* RingWork::slot(int64_t message) {
  return slots_.data() + static_cast<std::size_t>(message % kAhead * slot_elements_) * elements_.bytes;
}

void RingWork::send(int64_t message) {
  const RingMessage out = outgoing(message);
  const int next = static_cast<int>((rank_ + 1) % ranks_);
  check_mpi(MPI_Isend(out.data, out.count, elements_.type, next, tag_, comm_, &sends_.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Isend");
}

void RingWork::find_sent() {
  for (; sent_ < std::ssize(sends_); ++sent_) {
    int complete = 0;
    check_mpi(MPI_Test(&sends_[static_cast<std::size_t>(sent_)], &complete, MPI_STATUS_IGNORE), "MPI_Isend");
    if (complete == 0) return;
  }
}

/// A result of a reduction lands where a partial sum of the same piece was sent from, n - 1 steps before: not before
/// that is gone.
void RingWork::receive_ahead() {
  const int previous = static_cast<int>((rank_ + ranks_ - 1) % ranks_);
  for (; expected_ < std::min(messages_, taken_ + kAhead); ++expected_) {
    const bool reduced = expected_ < reduced_messages();
    if (!reduced && kind_ == Kind::all_reduce && sent_ <= expected_ - reduced_messages()) return;
    const RingMessage in = incoming(expected_);
    check_mpi(MPI_Irecv(reduced ? slot(expected_) : in.data, in.count, elements_.type, previous, tag_, comm_,
                        &receives_[static_cast<std::size_t>(expected_ % kAhead)]),
              "MPI_Irecv");
  }
}

/// Reduces the next message, if it is there, and sends it on.
bool RingWork::take_received() {
  if (taken_ == expected_) return false;
  int complete = 0;
  check_mpi(MPI_Test(&receives_[static_cast<std::size_t>(taken_ % kAhead)], &complete, MPI_STATUS_IGNORE), "MPI_Irecv");
  if (complete == 0) return false;
  if (taken_ < reduced_messages()) {
    const RingMessage sum = incoming(taken_);
    check_mpi(MPI_Reduce_local(slot(taken_), sum.data, sum.count, elements_.type, elements_.op), "MPI_Reduce_local");
  }
  if (taken_ + pieces_ < messages_) send(taken_ + pieces_);
  ++taken_;
  return true;
}

bool RingWork::test() {
  do {
    find_sent();
    receive_ahead();
  } while (take_received());
  return taken_ == messages_ && sent_ == messages_;
}

void RingWork::wait() {
  while (!test()) std::this_thread::yield();
}

}  // namespace ddpm::comm
