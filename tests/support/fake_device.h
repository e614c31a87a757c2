// An asynchronous device without hardware, for LibTorch: streams, events, an allocator that fills memory with NaN, and
// every operation of the CPU. It is of the type "PrivateUse1", so that code which asks LibTorch for streams and events,
// not CUDA, runs on it as it is. Operations compute at once, on the host; support/stream_order.h says which of them
// nothing orders.
//
// Not modelled: that a graph's memory stays where it was, and that an allocator's memory is shared by its streams.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <c10/core/Device.h>

#include "comm/communicator.h"
#include "device/device_graph.h"
#include "support/stream_order.h"

namespace ddpm::test {

/// The device, which LibTorch knows from before main() on. A process that has it has no other.
c10::Device fake_device();

/// The number of the calling thread's current stream, and that of a new one.
std::size_t current_stream();
std::size_t make_stream();

/// Bytes of pinned memory that were asked for so far, each time rounded up as LibTorch does it for a GPU.
int64_t pinned_bytes();

/// Waits for all streams, and forgets all but the default one: whoever had others is gone.
void finish();

/// Records nothing: each replay calls the work again, as the host knew it when it was recorded, and nothing in it may
/// wait or reach beyond the recording.
class FakeGraph final : public device::DeviceGraph {
 public:
  void record(const std::function<void()>& work) override { work_ = work; }
  void replay() override;

 private:
  std::function<void()> work_;
};

/// The collectives of `host`, whose ranks have such a device each, on a stream of their own: they follow what the
/// caller's stream was given, and who waits has the current stream follow them. stream_communicator.cpp has one of its
/// own; nccl_on_host.cpp that of comm/nccl_communicator.h, over functions of NCCL and CUDA that it defines. Collective.
std::unique_ptr<comm::Communicator> on_fake_device(comm::Communicator& host);

}  // namespace ddpm::test
