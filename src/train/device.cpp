#include "train/device.h"

#include "base/error.h"
#include "comm/collectives.h"

namespace ddpm::train {
namespace {

/// Whether this rank has a GPU to itself (or shares the one its launcher gave it).
bool has_gpu() {
  try {
    return comm::DeviceLibrary().visible_devices() > 0;
  } catch (const base::ConfigError&) {
    return false;  // no library, no driver or no GPU: "auto" computes on the CPU
  }
}

}  // namespace

c10::Device choose_device(const std::string& asked, comm::MpiSession& session) {
  comm::Communicator& world = session.world();
  if (asked == "cpu") return c10::kCPU;
  if (asked == "auto" && comm::all_reduce(world, int64_t{has_gpu()}, comm::ReduceOp::min) == 0) return c10::kCPU;
  int index = 0;
  comm::agree(world, [&] {
    const comm::DeviceLibrary library;
    index = comm::choose_device(session.local_rank(), session.local_size(), library.visible_devices());
  });
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

DataParallelDevice::DataParallelDevice(c10::Device device, comm::MpiSession& session)
    : communicator_(&session.world()) {
  if (device.is_cpu()) return;
  library_.emplace();
  session.before_abort([library = *library_] { library.abort_communicators(); });
  owned_ = library_->make_nccl_communicator(session.world(), device.index());
  communicator_ = owned_.get();
}

}  // namespace ddpm::train
