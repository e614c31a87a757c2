// Collective communication between ranks: one interface over MPI on host memory, NCCL on device memory, and a rank that
// is alone on either.
//
// Every rank of a communicator makes the same calls in the same order, and waits for them in the same order: a wait may
// move its own operation on and no other. Buffers must stay alive until the returned Work is done. All calls are made
// from the thread that owns the communicator; a thread that needs its own calls duplicate(). Failures throw
// base::CommunicationError.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/dtype.h"

namespace ddpm::comm {

enum class ReduceOp : uint8_t { sum, min, max };

/// `count` elements of `dtype` at `data`: on the host for MPI, on the device for NCCL.
struct Buffer {
  void* data = nullptr;
  int64_t count = 0;
  base::DType dtype = base::DType::f32;
};
struct ConstBuffer {
  const void* data = nullptr;
  int64_t count = 0;
  base::DType dtype = base::DType::f32;
  ConstBuffer(const void* d, int64_t n, base::DType t) : data(d), count(n), dtype(t) {}
  ConstBuffer(const Buffer& b) : data(b.data), count(b.count), dtype(b.dtype) {}  // NOLINT: implicit as T* to const T*
};

/// A collective in flight. Move-only. Destroying one that is not done is a bug (logged, never waited for).
class Work {
 public:
  struct Impl {
    virtual ~Impl() = default;
    /// True when complete; makes progress. Never blocks.
    virtual bool test() = 0;
    /// Host memory: blocks until complete. Device memory: makes the stream wait, not the host.
    virtual void wait() = 0;
  };

  Work() = default;  ///< already complete
  explicit Work(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work();

  bool test();
  void wait();
  /// Lets go of an operation that was recorded for a device and will never run (device/device_graph.h): its buffers are
  /// not in use. Whoever gives the recording up says so.
  void forget() { impl_.reset(); }

 private:
  std::unique_ptr<Impl> impl_;
};

/// One message of exchange().
struct Outgoing {
  ConstBuffer buffer;
  int to = 0;
  int tag = 0;
};
struct Incoming {
  Buffer buffer;
  int from = 0;
  int tag = 0;
};

/// On device memory a collective follows what the calling thread's current stream was given before, and runs beside
/// what it is given afterwards.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  virtual Work all_reduce(Buffer in_out, ReduceOp op) = 0;
  /// `in` holds size() consecutive parts of out.count elements; this rank gets the reduction of part rank(). `out` may
  /// be part rank() of `in`, on all ranks or on none; the other parts of `in` hold anything afterwards then.
  virtual Work reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) = 0;
  /// `out` receives size() parts of in.count elements, in rank order. `in` may be part rank() of `out`, on all ranks or
  /// on none.
  virtual Work all_gather(ConstBuffer in, Buffer out) = 0;
  virtual Work broadcast(Buffer in_out, int root) = 0;
  virtual Work barrier() = 0;
  virtual Work send(ConstBuffer in, int to, int tag) = 0;
  virtual Work receive(Buffer out, int from, int tag) = 0;
  /// Sends and receives that start together. Ranks that send to each other at the same time must use it: one after the
  /// other on a device's stream, two sends would wait for each other's receives for ever.
  virtual Work exchange(std::span<const Outgoing> out, std::span<const Incoming> in);

  /// Collective: ranks of equal `color` form a new communicator, ordered by (key, rank).
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  /// Collective: the same ranks, for another thread or independent traffic.
  [[nodiscard]] virtual std::unique_ptr<Communicator> duplicate() = 0;
  /// Not collective: this rank only, over the same kind of memory. It needs nothing of MPI or NCCL.
  [[nodiscard]] virtual std::unique_ptr<Communicator> alone() = 0;

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
};

}  // namespace ddpm::comm
