// libddpm_cuda.so, opened when a run asks for device = "cuda": the program itself links no CUDA library, so that
// commands on a login node start in a fraction of a second, on machines without a driver too.
//
// Opening it also registers LibTorch's CUDA backend. Open it before anything asks LibTorch about CUDA (at::hasCUDA()
// and the like): LibTorch looks once, and remembers that there was none. It stays open until the process ends.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/staged_communicator.h"
#include "device/device_graph.h"

namespace ddpm::device {

/// The GPUs that this process may use, and what drives them.
struct DeviceFacts {
  struct Gpu {
    std::string name = {};
    std::string bus_id = {};  ///< "0000:18:00.0": tells the GPUs of a host apart, but not a GPU's instances
    int64_t memory_bytes = 0;
    int capability = 0;  ///< ten times the compute capability: 70, 75, 80, 90; 0: not known
  };
  std::vector<Gpu> gpus;
  /// [i][j]: 1 where GPU i can read the memory of GPU j directly (NVLink or PCIe), and where i = j.
  std::vector<std::vector<int>> peer_access;
  std::string driver;   ///< newest CUDA version that the driver knows: "12.4"
  std::string runtime;  ///< version of the CUDA that this program was built with
  std::string nccl;
};

/// What libddpm_cuda.so offers; the C function `ddpm_cuda_functions` returns a pointer to its own.
struct DeviceFunctions {
  /// Counts up whenever this table or Communicator changes: the library and the program are built from one source.
  static constexpr int kInterface = 8;
  int interface = kInterface;
  /// GPUs that this process may use (CUDA_VISIBLE_DEVICES applied), or what CUDA says is wrong.
  int (*visible_devices)(std::string& error) = nullptr;
  std::unique_ptr<comm::Communicator> (*make_communicator)(comm::Communicator& host, int device) = nullptr;
  std::shared_ptr<comm::DeviceMemory> (*open_memory)(comm::Communicator& host, int device) = nullptr;
  std::string (*communicator_failure)() = nullptr;
  void (*abort_communicators)() = nullptr;
  std::unique_ptr<DeviceGraph> (*make_graph)() = nullptr;
  /// False, with a reason, when CUDA fails.
  bool (*describe_devices)(DeviceFacts& facts, std::string& error) = nullptr;
};
inline constexpr const char* kDeviceFunctionsSymbol = "ddpm_cuda_functions";

class DeviceLibrary {
 public:
  /// Opens the library: `path`, or when empty libddpm_cuda.so beside the program or in ../lib from there. It is opened
  /// by its absolute path and never searched for. Throws ConfigError when it was not built, cannot be loaded, or is of
  /// another version.
  explicit DeviceLibrary(const std::filesystem::path& path = {});

  /// The number of GPUs, at least 1. Throws ConfigError when there is no driver or no GPU.
  [[nodiscard]] int visible_devices() const;

  /// Throws ConfigError when CUDA fails. Makes no context on any GPU.
  [[nodiscard]] DeviceFacts describe_devices() const;

  /// Collective over `host`: a communicator of the same ranks over the device memory of GPU `device`, by NCCL. Its
  /// unique id is made on rank 0 and broadcast over `host`. A wait() on its Work makes the caller's current stream
  /// wait.
  [[nodiscard]] std::unique_ptr<comm::Communicator> make_nccl_communicator(comm::Communicator& host, int device) const;

  /// Collective over `host`: a communicator of the same ranks over host memory and `host`, for ranks that share a GPU.
  [[nodiscard]] std::unique_ptr<comm::Communicator> make_staged_communicator(comm::Communicator& host,
                                                                             int device) const;

  /// Returns the failure that NCCL has found on any communicator of this process, such as a network error or another
  /// rank's end, even if nobody has asked its Work yet; "" if there is none. Any thread may call it.
  [[nodiscard]] std::string communicator_failure() const { return functions_->communicator_failure(); }

  /// Ends what NCCL does and waits for in this process, on every communicator and whichever thread waits
  /// (ncclCommAbort). No communicator can be used afterwards; it is meant for a process that is about to end.
  void abort_communicators() const { functions_->abort_communicators(); }

  /// Makes a graph for the calling thread's GPU.
  [[nodiscard]] std::unique_ptr<DeviceGraph> make_graph() const { return functions_->make_graph(); }

 private:
  const DeviceFunctions* functions_ = nullptr;
};

/// Opens the library now, where gpu_sign() says that this process has GPUs, so that LibTorch finds its CUDA backend
/// whatever asks for it first. What goes wrong is left to the first DeviceLibrary that is made.
void open_library_for_gpus();

/// Sets what NCCL reads from the environment, unless it is set: before other threads are there, NCCL's own among them,
/// since setenv() may move what they are reading.
void choose_nccl_settings();

/// Sets the workspace of cuBLAS with which its products have the same bits each time (CUBLAS_WORKSPACE_CONFIG), unless
/// it is set, in a program that has libddpm_cuda.so: LibTorch refuses products without it when they have to be
/// deterministic. Whether they have to be is known when threads are there that read the environment, so it is set for
/// all: before Hopper a stream's workspace has 32 MiB in place of 8 then.
void choose_cublas_workspace();

/// Whether `gpu` is an instance of one (MIG): others have its bus_id, too.
bool is_instance(const DeviceFacts::Gpu& gpu);

/// Whether `gpu` multiplies in bf16, which came with compute capability 8.0. True where its capability is not known.
bool has_bf16(const DeviceFacts::Gpu& gpu);

/// How bf16 is asked for, and what to take where a GPU is older.
struct AskedPrecision {
  std::string_view asked = "precision.mixed_precision = \"bf16\"";
  std::string_view possible = "precision.mixed_precision = \"fp16\"";
};
/// Throws ConfigError, with the precision to take, when `gpu` does not multiply in bf16.
void expect_bf16(const DeviceFacts::Gpu& gpu, const AskedPrecision& precision = {});

}  // namespace ddpm::device
