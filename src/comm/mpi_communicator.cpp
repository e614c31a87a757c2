#include "comm/mpi_communicator.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/half.h"
#include "comm/mpi_library.h"
#include "comm/solo_communicator.h"

namespace ddpm::comm {
namespace {

template <base::DType dtype, ReduceOp op>
void half_function(void* in, void* in_out, int* length, MPI_Datatype* /*type*/) {
  const auto count = static_cast<std::size_t>(*length);
  reduce_half(dtype, op, std::span(static_cast<const uint16_t*>(in), count),
              std::span(static_cast<uint16_t*>(in_out), count));
}

template <base::DType dtype>
std::array<Op, 3> half_ops() {
  return {Op(half_function<dtype, ReduceOp::sum>), Op(half_function<dtype, ReduceOp::min>),
          Op(half_function<dtype, ReduceOp::max>)};
}

std::size_t offset(int64_t elements, base::DType dtype) {
  return static_cast<std::size_t>(elements) * base::size_of(dtype);
}
std::byte* at(const Buffer& buffer, int64_t element) {
  return static_cast<std::byte*>(buffer.data) + offset(element, buffer.dtype);
}
const std::byte* at(const ConstBuffer& buffer, int64_t element) {
  return static_cast<const std::byte*>(buffer.data) + offset(element, buffer.dtype);
}

/// Requests that are done together; `name` is the MPI operation for messages.
class MpiWork final : public Work::Impl {
 public:
  explicit MpiWork(const char* name) : name_(name) {}

  /// The request that the next MPI call fills.
  MPI_Request* next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  /// The last request is a receive of exactly `count` elements of `type`.
  void expect(int count, MPI_Datatype type) { expected_.push_back({count, type}); }

  bool test() override {
    for (; done_ < requests_.size(); ++done_) {
      int complete = 0;
      MPI_Status status;
      check_mpi(MPI_Test(&requests_[done_], &complete, &status), name_);
      if (complete == 0) return false;
      check_length(status);
    }
    return true;
  }
  // One by one: MPI_Waitall of Open MPI 4.1 spins for ever when a request fails that it has begun to wait for.
  void wait() override {
    if (!yields_while_waiting()) {
      while (!test()) std::this_thread::yield();
      return;
    }
    for (; done_ < requests_.size(); ++done_) {
      MPI_Status status;
      check_mpi(MPI_Wait(&requests_[done_], &status), name_);
      check_length(status);
    }
  }

 private:
  struct Expected {
    int count;
    MPI_Datatype type;
  };

  void check_length(const MPI_Status& status) const {
    if (expected_.empty()) return;  // not a receive
    int count = 0;
    check_mpi(MPI_Get_count(&status, expected_[done_].type, &count), "MPI_Get_count");
    if (count == expected_[done_].count) return;
    throw base::CommunicationError("{} from rank {} with tag {} brought {} elements; {} are wanted", name_,
                                   status.MPI_SOURCE, status.MPI_TAG, count, expected_[done_].count);
  }

  const char* name_;
  std::vector<MPI_Request> requests_;
  std::vector<Expected> expected_;
  std::size_t done_ = 0;  // requests before this one are complete
};

/// Calls start(first element, count) for consecutive pieces of [0, count).
template <typename Start>
void for_each_piece(int64_t count, int64_t piece, Start start) {
  for (int64_t first = 0; first < count; first += piece) start(first, static_cast<int>(std::min(piece, count - first)));
}

int rank_of(MPI_Comm comm) {
  // A communicator inherits its parent's handler, but one from outside may still abort on errors.
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}
int size_of(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm handle, int64_t piece_elements, const RingLimits& ring)
    : Communicator(rank_of(handle), size_of(handle)),
      handle_(handle),
      piece_elements_(piece_elements),
      ring_(ring),
      two_bytes_(Datatype::contiguous(2, MPI_BYTE)),
      f16_ops_(half_ops<base::DType::f16>()),
      bf16_ops_(half_ops<base::DType::bf16>()) {
  DDPM_CHECK(piece_elements >= 1 && piece_elements <= kPieceElements, "piece_elements {}", piece_elements);
}

MPI_Datatype MpiCommunicator::type_of(base::DType dtype) const {
  switch (dtype) {
    case base::DType::u8:
      return MPI_UINT8_T;
    case base::DType::i32:
      return MPI_INT32_T;
    case base::DType::i64:
      return MPI_INT64_T;
    case base::DType::f16:
    case base::DType::bf16:
      return two_bytes_.get();
    case base::DType::f32:
      return MPI_FLOAT;
    case base::DType::f64:
      return MPI_DOUBLE;
  }
  throw base::InternalError("dtype {} has no MPI type", static_cast<int>(dtype));
}

MPI_Op MpiCommunicator::op_of(base::DType dtype, ReduceOp op) const {
  if (dtype == base::DType::f16) return f16_ops_.at(static_cast<std::size_t>(op)).get();
  if (dtype == base::DType::bf16) return bf16_ops_.at(static_cast<std::size_t>(op)).get();
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
  }
  throw base::InternalError("reduction {} has no MPI operation", static_cast<int>(op));
}

bool MpiCommunicator::takes_ring(int64_t count, base::DType dtype) const {
  return size() > 1 && static_cast<int64_t>(offset(count, dtype)) >= ring_.least_part_bytes * size();
}

Work MpiCommunicator::ring(RingWork::Kind kind, std::byte* data, int64_t count, base::DType dtype, ReduceOp op) {
  const std::size_t bytes = base::size_of(dtype);
  const int tag = kFirstRingTag + rings_;
  rings_ = (rings_ + 1) % kFirstRingTag;
  const int64_t message = std::max<int64_t>(1, ring_.message_bytes / static_cast<int64_t>(bytes));
  return Work(std::make_unique<RingWork>(handle_, tag, kind, data, count,
                                         RingElements{type_of(dtype), bytes, op_of(dtype, op)}, message));
}

Work MpiCommunicator::all_reduce(Buffer in_out, ReduceOp op) {
  if (takes_ring(in_out.count, in_out.dtype)) {
    return ring(RingWork::Kind::all_reduce, at(in_out, 0), in_out.count, in_out.dtype, op);
  }
  auto work = std::make_unique<MpiWork>("MPI_Iallreduce");
  for_each_piece(in_out.count, piece_elements_, [&](int64_t first, int count) {
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, at(in_out, first), count, type_of(in_out.dtype), op_of(in_out.dtype, op),
                             handle_, work->next()),
              "MPI_Iallreduce");
  });
  return Work(std::move(work));
}

Work MpiCommunicator::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) {
  DDPM_CHECK(in.dtype == out.dtype && in.count == out.count * size(), "{} elements in, {} out, {} ranks", in.count,
             out.count, size());
  if (out.count == 0) return {};
  const bool in_place = at(in, rank() * out.count) == out.data;
  if (in_place && takes_ring(in.count, in.dtype)) {
    return ring(RingWork::Kind::reduce_scatter, at(out, 0) - offset(rank() * out.count, out.dtype), in.count, in.dtype,
                op);
  }
  if (in_place || in.count > piece_elements_) return reduce_each_part(in, out, op);
  auto work = std::make_unique<MpiWork>("MPI_Ireduce_scatter_block");
  check_mpi(MPI_Ireduce_scatter_block(in.data, out.data, static_cast<int>(out.count), type_of(in.dtype),
                                      op_of(in.dtype, op), handle_, work->next()),
            "MPI_Ireduce_scatter_block");
  return Work(std::move(work));
}

// One reduction per rank and piece: MPI_Ireduce_scatter_block takes neither a slice of every part nor a result that
// replaces its own part.
Work MpiCommunicator::reduce_each_part(ConstBuffer in, Buffer out, ReduceOp op) {
  const bool in_place = at(in, rank() * out.count) == out.data;
  auto work = std::make_unique<MpiWork>("MPI_Ireduce");
  for (int root = 0; root < size(); ++root) {
    for_each_piece(out.count, piece_elements_, [&](int64_t first, int count) {
      const void* from = in_place && root == rank() ? MPI_IN_PLACE : at(in, root * out.count + first);
      void* to = root == rank() ? at(out, first) : nullptr;
      check_mpi(MPI_Ireduce(from, to, count, type_of(in.dtype), op_of(in.dtype, op), root, handle_, work->next()),
                "MPI_Ireduce");
    });
  }
  return Work(std::move(work));
}

Work MpiCommunicator::all_gather(ConstBuffer in, Buffer out) {
  DDPM_CHECK(in.dtype == out.dtype && out.count == in.count * size(), "{} elements in, {} out, {} ranks", in.count,
             out.count, size());
  const bool in_place = in.data == at(out, rank() * in.count);
  if (takes_ring(out.count, out.dtype)) {
    if (!in_place) std::memcpy(at(out, rank() * in.count), in.data, offset(in.count, in.dtype));
    return ring(RingWork::Kind::all_gather, at(out, 0), out.count, out.dtype, ReduceOp::sum);
  }
  const MPI_Datatype type = type_of(in.dtype);
  auto work = std::make_unique<MpiWork>("MPI_Iallgather");
  for_each_piece(in.count, piece_elements_, [&](int64_t first, int count) {
    // Rank r's piece belongs r parts further on, whatever the length of the piece.
    const auto slot = Datatype::strided(count, type, static_cast<MPI_Aint>(offset(in.count, in.dtype)));
    check_mpi(MPI_Iallgather(in_place ? MPI_IN_PLACE : at(in, first), count, type, at(out, first), 1, slot.get(),
                             handle_, work->next()),
              "MPI_Iallgather");
  });
  return Work(std::move(work));
}

Work MpiCommunicator::broadcast(Buffer in_out, int root) {
  auto work = std::make_unique<MpiWork>("MPI_Ibcast");
  for_each_piece(in_out.count, piece_elements_, [&](int64_t first, int count) {
    check_mpi(MPI_Ibcast(at(in_out, first), count, type_of(in_out.dtype), root, handle_, work->next()), "MPI_Ibcast");
  });
  return Work(std::move(work));
}

Work MpiCommunicator::barrier() {
  auto work = std::make_unique<MpiWork>("MPI_Ibarrier");
  check_mpi(MPI_Ibarrier(handle_, work->next()), "MPI_Ibarrier");
  return Work(std::move(work));
}

// Pieces share one tag: MPI keeps messages of one sender, receiver and tag in order.
Work MpiCommunicator::send(ConstBuffer in, int to, int tag) {
  DDPM_CHECK(tag >= 0 && tag < kFirstRingTag, "tag {}", tag);
  auto work = std::make_unique<MpiWork>("MPI_Isend");
  for_each_piece(in.count, piece_elements_, [&](int64_t first, int count) {
    check_mpi(MPI_Isend(at(in, first), count, type_of(in.dtype), to, tag, handle_, work->next()), "MPI_Isend");
  });
  return Work(std::move(work));
}

Work MpiCommunicator::receive(Buffer out, int from, int tag) {
  DDPM_CHECK(tag >= 0 && tag < kFirstRingTag, "tag {}", tag);
  auto work = std::make_unique<MpiWork>("MPI_Irecv");
  for_each_piece(out.count, piece_elements_, [&](int64_t first, int count) {
    const MPI_Datatype type = type_of(out.dtype);
    check_mpi(MPI_Irecv(at(out, first), count, type, from, tag, handle_, work->next()), "MPI_Irecv");
    work->expect(count, type);
  });
  return Work(std::move(work));
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  DDPM_CHECK(color >= 0, "color {}", color);
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(handle_, color, key, &part), "MPI_Comm_split");
  return std::make_unique<MpiCommunicator>(part, piece_elements_, ring_);
}

std::unique_ptr<Communicator> MpiCommunicator::duplicate() {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(handle_, &copy), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(copy, piece_elements_, ring_);
}

std::unique_ptr<Communicator> MpiCommunicator::alone() { return std::make_unique<SoloCommunicator>(); }

MPI_Comm mpi_handle(const Communicator& comm) {
  const auto* mpi = dynamic_cast<const MpiCommunicator*>(&comm);
  DDPM_CHECK(mpi != nullptr, "an MPI communicator is wanted here");
  return mpi->handle();
}

}  // namespace ddpm::comm
