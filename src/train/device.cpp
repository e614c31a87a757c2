#include "train/device.h"

#include <cstdlib>

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

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

void use_deterministic_kernels(at::Context& torch) {
  torch.setDeterministicAlgorithms(true, /*warn_only=*/false);
  torch.setDeterministicFillUninitializedMemory(false);  // nothing here reads memory that was not set
  torch.setDeterministicCuDNN(true);
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

void choose_kernels(c10::Device device, const KernelChoice& choice) {
  at::Context& torch = at::globalContext();
  if (choice.reproducible) use_deterministic_kernels(torch);
  if (!device.is_cuda()) return;
  if (choice.reproducible) {
    // Without it LibTorch refuses matrix products when it is to be deterministic.
    // NOLINTNEXTLINE(concurrency-mt-unsafe): at start
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);
  }
  torch.setBenchmarkCuDNN(!choice.reproducible);
  torch.setAllowTF32CuBLAS(choice.allow_tf32);
  torch.setAllowTF32CuDNN(choice.allow_tf32);
}

DataParallelDevice::DataParallelDevice(c10::Device device, comm::MpiSession& session)
    : communicator_(&session.world()) {
  if (device.is_cpu()) return;
  library_.emplace();
  const c10::impl::VirtualGuardImpl streams(device.type());
  streams.synchronizeDevice(device.index());  // what made the model's state is done
  stream_.reset_stream(streams.getStreamFromGlobalPool(device, /*isHighPriority=*/false));
  session.set_failure_check([library = *library_] { return library.communicator_failure(); });
  session.before_abort([library = *library_] { library.abort_communicators(); });
  owned_ = library_->make_nccl_communicator(session.world(), device.index());
  communicator_ = owned_.get();
}

std::unique_ptr<comm::DeviceGraph> DataParallelDevice::make_graph() const {
  return library_ ? library_->make_graph() : nullptr;
}

}  // namespace ddpm::train
