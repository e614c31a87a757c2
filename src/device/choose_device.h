// The device a rank computes on, and the communicator that sums gradients there.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include <c10/core/Device.h>
#include <c10/core/StreamGuard.h>

#include "base/log.h"
#include "comm/mpi_session.h"
#include "device/device_choice.h"
#include "device/device_graph.h"
#include "device/device_library.h"

namespace ddpm::device {

/// Returns the device that `asked` stands for. For `cuda` it is the GPU of this rank's place on its host, among those
/// that its launcher shows it (device/gpu_choice.h), which ranks that `share_gpus` may have in common; throws
/// ConfigError when there is none. Where `automatic` becomes the CPU although something says that the job has GPUs, a
/// warning says what, and why they cannot be used. Collective: all ranks get the same kind of device.
c10::Device choose_device(DeviceChoice asked, comm::MpiSession& session, const base::Logger& log,
                          bool share_gpus = false);

/// Throws ConfigError on all ranks when `device` is a GPU of any of them that does not multiply in bf16. Collective.
void expect_bf16(c10::Device device, comm::Communicator& world, const AskedPrecision& precision = {});

/// The GPU of `facts` that `device` is, where an index of -1 is the first; nothing in it for the host, and for one that
/// `facts` does not have.
DeviceFacts::Gpu gpu_of(const DeviceFacts& facts, c10::Device device);

struct KernelChoice {
  bool reproducible = false;
  bool allow_tf32 = true;
  /// Ranks compute the same weights' gradients each on its own, and must get the same bits.
  bool same_on_ranks = false;
};

/// Tells LibTorch, for the whole process, which kernels training may use. On a GPU cuDNN tries its convolutions and
/// keeps the fastest for each shape, and float32 products are rounded to TF32 if they may be. Where results must be
/// reproducible only deterministic kernels run, on a GPU with the workspace that choose_cublas_workspace() has set:
/// call it before anything runs there. So do they on GPUs that must agree, which would choose other kernels each.
void choose_kernels(c10::Device device, const KernelChoice& choice);

/// Tells LibTorch, for the whole process, which kernels draw and evaluate with a model on a GPU, where products may be
/// rounded to TF32 as training rounded them. What cuDNN would try and time is left out: a shape has one kernel, so that
/// a sample has the same bits each time.
void choose_inference_kernels(c10::Device device, bool allow_tf32);

/// Says which two ranks have the same GPU, and what is wanted instead; "" where each has its own. `places` tell GPUs
/// apart; "": one that nobody else has.
std::string shared_gpu(std::span<const std::string> places);

/// What ranks compute with. On a GPU, as long as it lives, the calling thread gives its work to a stream of its own:
/// what the default stream is given cannot be recorded. Collective; throws
/// ConfigError on all ranks where two have the same GPU and do not share it.
class DataParallelDevice {
 public:
  DataParallelDevice(c10::Device device, comm::MpiSession& session, bool share_gpus = false);
  /// Returns the communicator for gradients: MPI over host memory, or over device memory NCCL, or MPI by way of the
  /// host where ranks share GPUs.
  [[nodiscard]] comm::Communicator& communicator() { return *communicator_; }
  /// Null on the host, and where ranks share GPUs: what the host does cannot be recorded.
  [[nodiscard]] std::unique_ptr<DeviceGraph> make_graph() const;

 private:
  c10::OptionalStreamGuard stream_;
  std::optional<DeviceLibrary> library_;
  bool staged_ = false;
  std::unique_ptr<comm::Communicator> owned_;  ///< null on the host, where the session's world serves
  comm::Communicator* communicator_;
};

}  // namespace ddpm::device
