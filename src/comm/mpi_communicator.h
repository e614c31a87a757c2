// Collectives over MPI, on host memory.
//
// Every call is one of MPI's non-blocking operations. Counts above the piece size become several of them, since MPI-3
// counts are ints. Large all-reduces and all-gathers, and reduce-scatters in place, are rings of messages (ring_work.h)
// with tags from kFirstRingTag on. f16 and bf16 are reduced by operations of our own (half.h), in float32.
//
// MPI_Comm_free is collective, so no destructor calls it: a communicator's MPI_Comm lives until MPI_Finalize. A run
// makes a handful, once.
#pragma once

#include <array>
#include <limits>
#include <memory>

#include "comm/communicator.h"
#include "comm/mpi_handles.h"
#include "comm/ring_work.h"

namespace ddpm::comm {

/// Rings pay where parts are large: each takes 2 (n - 1) messages, a tree 2 log2(n).
struct RingLimits {
  int64_t least_part_bytes = int64_t{16} << 10;
  int64_t message_bytes = int64_t{1} << 20;
};

class MpiCommunicator final : public Communicator {
 public:
  /// Elements per MPI call. Their bytes stay below INT_MAX, since implementations multiply counts by sizes in ints.
  static constexpr int64_t kPieceElements = int64_t{1} << 27;
  static_assert(kPieceElements * sizeof(double) <= std::numeric_limits<int>::max());
  /// send(), receive() and exchange() take tags below this. MPI promises tags up to 32,767.
  static constexpr int kFirstRingTag = 16384;

  /// Takes over `handle`, an intracommunicator that nobody else makes calls on; its errors will be returned.
  /// `piece_elements` and `ring` are smaller in tests only.
  explicit MpiCommunicator(MPI_Comm handle, int64_t piece_elements = kPieceElements, const RingLimits& ring = {});

  [[nodiscard]] MPI_Comm handle() const { return handle_; }

  Work all_reduce(Buffer in_out, ReduceOp op) override;
  Work reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) override;
  Work all_gather(ConstBuffer in, Buffer out) override;
  Work broadcast(Buffer in_out, int root) override;
  Work barrier() override;
  Work send(ConstBuffer in, int to, int tag) override;
  Work receive(Buffer out, int from, int tag) override;

  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key) override;
  [[nodiscard]] std::unique_ptr<Communicator> duplicate() override;
  [[nodiscard]] std::unique_ptr<Communicator> alone() override;

 private:
  [[nodiscard]] MPI_Datatype type_of(base::DType dtype) const;
  [[nodiscard]] MPI_Op op_of(base::DType dtype, ReduceOp op) const;
  Work reduce_each_part(ConstBuffer in, Buffer out, ReduceOp op);
  [[nodiscard]] bool takes_ring(int64_t count, base::DType dtype) const;
  Work ring(RingWork::Kind kind, std::byte* data, int64_t count, base::DType dtype, ReduceOp op);

  MPI_Comm handle_;
  int64_t piece_elements_;
  RingLimits ring_;
  int rings_ = 0;  // started so far; gives each its tag
  Datatype two_bytes_;
  std::array<Op, 3> f16_ops_;   // by ReduceOp
  std::array<Op, 3> bf16_ops_;  // by ReduceOp
};

/// The MPI_Comm of a communicator over host memory, for libraries that need one (parallel HDF5). Throws InternalError
/// when it is not an MPI communicator.
MPI_Comm mpi_handle(const Communicator& comm);

}  // namespace ddpm::comm
