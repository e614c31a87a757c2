// comm/nccl_communicator.h over what it calls of NCCL and of CUDA's runtime, made of a communicator over host memory
// and the streams of support/fake_device.h. Only these functions are defined here; the program that links this file
// must not call others.
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "base/check.h"
#include "comm/nccl_communicator.h"
#include "support/fake_device.h"

namespace ddpm::test {
namespace {

using Range = StreamOrder::Range;

StreamOrder& order() { return StreamOrder::instance(); }

/// Collectives that a stream was given, in their order.
struct Collectives {
  std::deque<comm::Work> under_way;
  int64_t done = 0;

  [[nodiscard]] int64_t given() const { return done + std::ssize(under_way); }
  /// Whether so many are finished, without waiting for them.
  [[nodiscard]] bool finished(int64_t count) {
    for (; done < count && under_way.front().test(); ++done) under_way.pop_front();
    return done >= count;
  }
  void finish(int64_t count) {
    for (; done < count; ++done) {
      under_way.front().wait();
      under_way.pop_front();
    }
  }
};
std::array<Collectives, StreamOrder::kStreams> collectives;

// The handles of CUDA are numbers of streams, plus 1, and events.
struct FakeEvent {
  StreamOrder::Mark mark;
  std::size_t stream = 0;
  int64_t given = 0;  // collectives of that stream when it was recorded
  int64_t asked = 0;
};
FakeEvent& event_of(cudaEvent_t event) { return *reinterpret_cast<FakeEvent*>(event); }
std::size_t number_of(cudaStream_t stream) { return reinterpret_cast<std::size_t>(stream) - 1; }
// NOLINTNEXTLINE(performance-no-int-to-ptr): a handle is opaque
cudaStream_t handle_of(std::size_t stream) { return reinterpret_cast<cudaStream_t>(stream + 1); }
c10::cuda::CUDAStream stream_of(std::size_t number) {
  return c10::cuda::CUDAStream(
      c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, 0), static_cast<c10::StreamId>(number)));
}

/// What ncclCommInitRank() makes its communicator of.
comm::Communicator* host = nullptr;

struct FakeComm {
  std::unique_ptr<comm::Communicator> host;
  std::unique_ptr<comm::Communicator> out_of_band;
  std::set<int> sent_to = {};
  std::set<int> heard_of = {};
};
FakeComm& comm_of(ncclComm_t comm) { return *reinterpret_cast<FakeComm*>(comm); }
comm::Communicator& host_of(ncclComm_t comm) { return *comm_of(comm).host; }
ncclComm_t handle_of(std::unique_ptr<comm::Communicator> made) {
  auto out_of_band = made->duplicate();
  return reinterpret_cast<ncclComm_t>(new FakeComm{std::move(made), std::move(out_of_band)});
}

/// Does what NCCL does at the first message between two ranks: the host waits until both, and all others of its call,
/// are there.
void connect(ncclComm_t comm, const std::vector<comm::Outgoing>& out, const std::vector<comm::Incoming>& in) {
  constexpr int kAsks = 1;
  constexpr int kAnswers = 2;
  FakeComm& fake = comm_of(comm);
  std::array<std::byte, 1> said{};
  std::vector<std::byte> heard(out.size() + in.size());
  std::vector<comm::Outgoing> to;
  std::vector<comm::Incoming> from;
  const auto meet = [&](int other, int own_tag, int other_tag) {
    to.push_back({{said.data(), 1, base::DType::u8}, other, own_tag});
    from.push_back({{&heard[from.size()], 1, base::DType::u8}, other, other_tag});
  };
  for (const auto& message : out) {
    if (fake.sent_to.insert(message.to).second) meet(message.to, kAsks, kAnswers);
  }
  for (const auto& message : in) {
    if (fake.heard_of.insert(message.from).second) meet(message.from, kAnswers, kAsks);
  }
  if (!to.empty()) fake.out_of_band->exchange(to, from).wait();
}

base::DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return base::DType::u8;
    case ncclInt32:
      return base::DType::i32;
    case ncclInt64:
      return base::DType::i64;
    case ncclFloat16:
      return base::DType::f16;
    case ncclBfloat16:
      return base::DType::bf16;
    case ncclFloat32:
      return base::DType::f32;
    case ncclFloat64:
      return base::DType::f64;
    default:
      throw base::InternalError("NCCL type {}", static_cast<int>(type));
  }
}

comm::ReduceOp op_of(ncclRedOp_t op) {
  DDPM_CHECK(op == ncclSum || op == ncclMin || op == ncclMax, "NCCL operation {}", static_cast<int>(op));
  return op == ncclSum ? comm::ReduceOp::sum : op == ncclMin ? comm::ReduceOp::min : comm::ReduceOp::max;
}

Range range_of(const comm::ConstBuffer& buffer, bool writes) {
  return {buffer.data, static_cast<std::size_t>(buffer.count) * base::size_of(buffer.dtype), writes};
}

comm::Buffer buffer_of(void* data, std::size_t count, ncclDataType_t type) {
  return {data, static_cast<int64_t>(count), dtype_of(type)};
}
comm::ConstBuffer buffer_of(const void* data, std::size_t count, ncclDataType_t type) {
  return {data, static_cast<int64_t>(count), dtype_of(type)};
}

ncclResult_t run(const char* what, std::vector<Range> ranges, cudaStream_t stream,
                 const std::function<comm::Work()>& collective) {
  order().work(number_of(stream), what, ranges);
  collectives.at(number_of(stream)).under_way.push_back(collective());
  return ncclSuccess;
}

/// Sends and receives between ncclGroupStart() and ncclGroupEnd(), which are of one communicator and one stream.
struct Group {
  bool open = false;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<comm::Outgoing> out = {};
  std::vector<comm::Incoming> in = {};
};
thread_local Group group;

}  // namespace

std::unique_ptr<comm::Communicator> on_fake_device(comm::Communicator& ranks) {
  host = &ranks;
  return comm::create_nccl_communicator(ranks, 0);
}

}  // namespace ddpm::test

using namespace ddpm::test;  // NOLINT(google-build-using-namespace): what follows has the names of others

namespace c10::cuda {

cudaStream_t CUDAStream::stream() const { return handle_of(static_cast<std::size_t>(stream_.id())); }
CUDAStream getStreamFromPool(const bool /*isHighPriority*/, DeviceIndex /*device*/) { return stream_of(make_stream()); }
CUDAStream getCurrentCUDAStream(DeviceIndex /*device*/) { return stream_of(current_stream()); }
DeviceIndex ExchangeDevice(DeviceIndex /*device*/) { return 0; }
cudaError_t MaybeSetDevice(DeviceIndex /*device*/) { return cudaSuccess; }

}  // namespace c10::cuda

extern "C" {

cudaError_t cudaSetDevice(int /*device*/) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t /*code*/) { return "an error of the stand-in for CUDA"; }

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::calloc(1, bytes);
  order().take(*memory, bytes, current_stream());
  return cudaSuccess;
}
// It waits for the device.
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  for (Collectives& each : collectives) each.finish(each.given());
  order().host_follows_all("cudaFree");
  order().give_back(memory);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  const std::array ranges{Range{from, bytes, false}, Range{to, bytes, true}};
  order().work(number_of(stream), "cudaMemcpyAsync", ranges);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::size_t number = number_of(stream);
  event_of(event) = {.mark = order().mark(number), .stream = number, .given = collectives.at(number).given()};
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!collectives.at(event_of(event).stream).finished(event_of(event).given)) return cudaErrorNotReady;
  return order().host_knows(event_of(event).mark, event_of(event).asked++) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  // What the stream is given next computes at once, so that values of collectives must be there.
  collectives.at(event_of(event).stream).finish(event_of(event).given);
  order().follow(number_of(stream), event_of(event).mark);
  return cudaSuccess;
}

const char* ncclGetErrorString(ncclResult_t /*code*/) { return "an error of the stand-in for NCCL"; }
const char* ncclGetLastError(ncclComm_t /*comm*/) { return ""; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id->internal, 1, sizeof(id->internal));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  const bool same = id.internal[0] == 1 && ranks == host->size() && rank == host->rank();
  if (!same) return ncclInvalidArgument;
  *comm = handle_of(host->duplicate());
  return ncclSuccess;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* /*config*/) {
  *part = handle_of(host_of(comm).split(color, key));
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete reinterpret_cast<FakeComm*>(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t /*comm*/, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = host_of(comm).rank();
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* size) {
  *size = host_of(comm).size();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  if (in != out) return ncclInvalidUsage;  // nobody here does
  const auto buffer = buffer_of(out, count, type);
  return run("ncclAllReduce", {range_of(buffer, true)}, stream,
             [&] { return host_of(comm).all_reduce(buffer, op_of(op)); });
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  const auto whole = buffer_of(in, count * static_cast<std::size_t>(host_of(comm).size()), type);
  const auto own = buffer_of(out, count, type);
  return run("ncclReduceScatter", {range_of(whole, false), range_of(own, true)}, stream,
             [&] { return host_of(comm).reduce_scatter(whole, own, op_of(op)); });
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const auto own = buffer_of(in, count, type);
  const auto whole = buffer_of(out, count * static_cast<std::size_t>(host_of(comm).size()), type);
  return run("ncclAllGather", {range_of(own, false), range_of(whole, true)}, stream,
             [&] { return host_of(comm).all_gather(own, whole); });
}
ncclResult_t ncclBroadcast(const void* /*in*/, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const auto buffer = buffer_of(out, count, type);
  return run("ncclBroadcast", {range_of(buffer, true)}, stream, [&] { return host_of(comm).broadcast(buffer, root); });
}

ncclResult_t ncclGroupStart() {
  if (group.open) return ncclInvalidUsage;
  group = {.open = true};
  return ncclSuccess;
}
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
  const auto buffer = buffer_of(in, count, type);
  if (!group.open) {
    connect(comm, {{.buffer = buffer, .to = to}}, {});
    return run("ncclSend", {range_of(buffer, false)}, stream, [&] { return host_of(comm).send(buffer, to, 0); });
  }
  group.comm = comm;
  group.stream = stream;
  group.out.push_back({.buffer = buffer, .to = to});
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream) {
  const auto buffer = buffer_of(out, count, type);
  if (!group.open) {
    connect(comm, {}, {{.buffer = buffer, .from = from}});
    return run("ncclRecv", {range_of(buffer, true)}, stream, [&] { return host_of(comm).receive(buffer, from, 0); });
  }
  group.comm = comm;
  group.stream = stream;
  group.in.push_back({.buffer = buffer, .from = from});
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (!group.open) return ncclInvalidUsage;
  const Group done = std::exchange(group, {});
  if (done.comm == nullptr) return ncclSuccess;
  connect(done.comm, done.out, done.in);
  std::vector<Range> ranges;
  for (const auto& message : done.out) ranges.push_back(range_of(message.buffer, false));
  for (const auto& message : done.in) ranges.push_back(range_of(message.buffer, true));
  return run("ncclGroupEnd", ranges, done.stream, [&] { return host_of(done.comm).exchange(done.out, done.in); });
}

}  // extern "C"
