#include "comm/nccl_communicator.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include "base/bounded_work.h"
#include "base/check.h"
#include "base/log.h"
#include "comm/collectives.h"
#include "comm/nccl_solo.h"
#include "comm/nccl_stream.h"

namespace ddpm::comm {
namespace {

void check_nccl(ncclResult_t code, const char* operation, ncclComm_t comm = nullptr) {
  if (code == ncclSuccess) return;
  throw base::CommunicationError("{} failed: {} ({})", operation, ncclGetErrorString(code), ncclGetLastError(comm));
}

/// How the communicator failed, or ncclSuccess. One that is still at work has not.
ncclResult_t failure_of(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
  if (asked != ncclSuccess) state = asked;
  return state == ncclInProgress ? ncclSuccess : state;
}

/// The communicators of this process, for abort_communicators(): whoever takes one out aborts it, once.
class LiveComms {
 public:
  void put(ncclComm_t comm) {
    const std::lock_guard lock(mutex_);
    comms_.insert(comm);
  }
  bool take(ncclComm_t comm) {
    const std::lock_guard lock(mutex_);
    return comms_.erase(comm) > 0;
  }
  /// Says how the first one that failed did so. None is aborted meanwhile.
  std::string failure() {
    const std::lock_guard lock(mutex_);
    for (ncclComm_t comm : comms_) {
      const ncclResult_t failure = failure_of(comm);
      if (failure != ncclSuccess) {
        return fmt::format("NCCL: {} ({})", ncclGetErrorString(failure), ncclGetLastError(comm));
      }
    }
    return "";
  }
  /// How `comm` failed, or ncclSuccess; it is not aborted meanwhile, and of one that is gone nothing is asked.
  ncclResult_t failure_of_live(ncclComm_t comm) {
    const std::lock_guard lock(mutex_);
    return comms_.contains(comm) ? failure_of(comm) : ncclSuccess;
  }
  std::set<ncclComm_t> take_all() {
    const std::lock_guard lock(mutex_);
    return std::exchange(comms_, {});
  }

 private:
  std::mutex mutex_;
  std::set<ncclComm_t> comms_;
};

/// One per process, as NCCL's own state is: a thread that knows none of them must be able to end them all.
LiveComms& live_comms() {
  static LiveComms comms;
  return comms;
}

/// Set when the process is about to be ended: what an aborted collective leaves in a buffer is nothing to go on with.
std::atomic<bool> aborting = false;
void stop_if_aborting() {
  while (aborting) std::this_thread::sleep_for(std::chrono::seconds(1));
}

/// Owns an ncclComm_t. ncclCommDestroy waits for the other ranks; ncclCommAbort, which does not, is what a destructor
/// may call. Every Work is done by then.
class NcclComm {
 public:
  explicit NcclComm(ncclComm_t comm) : comm_(comm) { live_comms().put(comm); }
  ~NcclComm() {
    if (live_comms().take(comm_)) log_failure(ncclCommAbort(comm_) != ncclSuccess, "ncclCommAbort");
  }
  NcclComm(NcclComm&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  NcclComm& operator=(NcclComm&&) = delete;
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;
  [[nodiscard]] ncclComm_t get() const { return comm_; }

 private:
  ncclComm_t comm_ = nullptr;
};

/// A few bytes of device memory.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t size) { check_cuda(cudaMalloc(&data_, size), "cudaMalloc"); }
  ~DeviceBytes() { log_failure(cudaFree(data_) != cudaSuccess, "cudaFree"); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

/// The point of a stream at which a collective is complete.
class NcclWork final : public StreamWork {
 public:
  NcclWork(ncclComm_t comm, int device, cudaStream_t stream) : StreamWork(device, stream), comm_(comm) {}

  bool test() override {
    stop_if_aborting();
    if (StreamWork::test()) return true;
    check_nccl(live_comms().failure_of_live(comm_), "an NCCL operation", comm_);
    return false;
  }
  void wait() override {
    stop_if_aborting();
    StreamWork::wait();
  }

 private:
  ncclComm_t comm_;
};

ncclDataType_t type_of(base::DType dtype) {
  switch (dtype) {
    case base::DType::u8:
      return ncclUint8;
    case base::DType::i32:
      return ncclInt32;
    case base::DType::i64:
      return ncclInt64;
    case base::DType::f16:
      return ncclFloat16;
    case base::DType::bf16:
      return ncclBfloat16;
    case base::DType::f32:
      return ncclFloat32;
    case base::DType::f64:
      return ncclFloat64;
  }
  throw base::InternalError("dtype {} has no NCCL type", static_cast<int>(dtype));
}

ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
  }
  throw base::InternalError("reduction {} has no NCCL operation", static_cast<int>(op));
}

std::size_t count_of(int64_t count) { return static_cast<std::size_t>(count); }

int rank_in(const NcclComm& comm) {
  int rank = 0;
  check_nccl(ncclCommUserRank(comm.get(), &rank), "ncclCommUserRank", comm.get());
  return rank;
}
int size_of(const NcclComm& comm) {
  int size = 0;
  check_nccl(ncclCommCount(comm.get(), &size), "ncclCommCount", comm.get());
  return size;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(NcclComm comm, int device)
      : Communicator(rank_in(comm), size_of(comm)),
        token_(sizeof(float)),
        comm_(std::move(comm)),
        device_(device),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, static_cast<c10::DeviceIndex>(device))) {
    check_cuda(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  ~NcclCommunicator() override { log_failure(cudaEventDestroy(ready_) != cudaSuccess, "cudaEventDestroy"); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  Work all_reduce(Buffer in_out, ReduceOp op) override {
    return enqueue("ncclAllReduce", [&](cudaStream_t s) {
      return ncclAllReduce(in_out.data, in_out.data, count_of(in_out.count), type_of(in_out.dtype), op_of(op),
                           comm_.get(), s);
    });
  }

  Work reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op) override {
    DDPM_CHECK(in.dtype == out.dtype && in.count == out.count * size(), "{} elements in, {} out, {} ranks", in.count,
               out.count, size());
    return enqueue("ncclReduceScatter", [&](cudaStream_t s) {
      return ncclReduceScatter(in.data, out.data, count_of(out.count), type_of(out.dtype), op_of(op), comm_.get(), s);
    });
  }

  Work all_gather(ConstBuffer in, Buffer out) override {
    DDPM_CHECK(in.dtype == out.dtype && out.count == in.count * size(), "{} elements in, {} out, {} ranks", in.count,
               out.count, size());
    return enqueue("ncclAllGather", [&](cudaStream_t s) {
      return ncclAllGather(in.data, out.data, count_of(in.count), type_of(in.dtype), comm_.get(), s);
    });
  }

  Work broadcast(Buffer in_out, int root) override {
    return enqueue("ncclBroadcast", [&](cudaStream_t s) {
      return ncclBroadcast(in_out.data, in_out.data, count_of(in_out.count), type_of(in_out.dtype), root, comm_.get(),
                           s);
    });
  }

  Work barrier() override { return all_reduce({token_.data(), 1, base::DType::f32}, ReduceOp::max); }

  Work send(ConstBuffer in, int to, int /*tag*/) override {
    return enqueue("ncclSend", [&](cudaStream_t s) { return start(in, to, s); });
  }

  Work receive(Buffer out, int from, int /*tag*/) override {
    return enqueue("ncclRecv", [&](cudaStream_t s) { return start(out, from, s); });
  }

  // In one group: alone, each send would hold the stream until its receiver came, whose receive may stand behind a
  // send.
  Work exchange(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    return enqueue("ncclGroupEnd", [&](cudaStream_t s) {
      check_nccl(ncclGroupStart(), "ncclGroupStart");
      ncclResult_t first_failure = ncclSuccess;
      const auto note = [&](ncclResult_t code) {
        if (first_failure == ncclSuccess) first_failure = code;
      };
      for (const Incoming& message : in) note(start(message.buffer, message.from, s));
      for (const Outgoing& message : out) note(start(message.buffer, message.to, s));
      note(ncclGroupEnd());
      return first_failure;
    });
  }

  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key) override {
    DDPM_CHECK(color >= 0, "color {}", color);
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device_));
    ncclComm_t part = nullptr;
    check_nccl(ncclCommSplit(comm_.get(), color, key, &part, nullptr), "ncclCommSplit", comm_.get());
    return std::make_unique<NcclCommunicator>(NcclComm(part), device_);
  }

  [[nodiscard]] std::unique_ptr<Communicator> duplicate() override { return split(0, rank()); }
  [[nodiscard]] std::unique_ptr<Communicator> alone() override { return std::make_unique<NcclSolo>(device_); }

 private:
  ncclResult_t start(const ConstBuffer& in, int to, cudaStream_t stream) {
    return ncclSend(in.data, count_of(in.count), type_of(in.dtype), to, comm_.get(), stream);
  }
  ncclResult_t start(const Buffer& out, int from, cudaStream_t stream) {
    return ncclRecv(out.data, count_of(out.count), type_of(out.dtype), from, comm_.get(), stream);
  }

  template <typename Call>
  Work enqueue(const char* operation, Call call) {
    stop_if_aborting();
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device_));
    // Beside the computation, behind what the caller's stream was given so far.
    check_cuda(cudaEventRecord(ready_, current_stream(device_)), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(stream_.stream(), ready_, 0), "cudaStreamWaitEvent");
    check_nccl(call(stream_.stream()), operation, comm_.get());
    return Work(std::make_unique<NcclWork>(comm_.get(), device_, stream_.stream()));
  }

  DeviceBytes token_;  // what barrier() reduces; cudaFree waits for the device, so it goes after comm_
  NcclComm comm_;
  int device_;
  c10::cuda::CUDAStream stream_;
  cudaEvent_t ready_ = nullptr;
};

}  // namespace

std::unique_ptr<Communicator> create_nccl_communicator(Communicator& host, int device) {
  expect_working_gpu(host, device);
  if (host.size() == 1) return std::make_unique<NcclSolo>(device);
  const std::string bytes = agree_on_root(host, [] {
    ncclUniqueId made;
    check_nccl(ncclGetUniqueId(&made), "ncclGetUniqueId");
    return std::string(made.internal, sizeof(made.internal));
  });
  ncclUniqueId id;
  std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  ncclComm_t comm = nullptr;
  check_nccl(ncclCommInitRank(&comm, host.size(), id, host.rank()), "ncclCommInitRank");
  return std::make_unique<NcclCommunicator>(NcclComm(comm), device);
}

std::string nccl_failure() { return live_comms().failure(); }

void abort_nccl_communicators() {
  constexpr auto kPatience = std::chrono::seconds(1);
  aborting = true;
  // A communicator that a CUDA graph holds is not let go before the graph is, which another thread may be stuck in.
  base::work_for_at_most(kPatience, [comms = live_comms().take_all()] {
    for (ncclComm_t comm : comms) log_failure(ncclCommAbort(comm) != ncclSuccess, "ncclCommAbort");
  });
}

}  // namespace ddpm::comm
