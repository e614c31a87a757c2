#include "device/device_library.h"

#include <array>
#include <cstdlib>
#include <span>
#include <system_error>

#include <dlfcn.h>

#include "base/error.h"
#include "comm/launch.h"
#include "device/gpu_signs.h"

namespace ddpm::device {
namespace {

constexpr const char* kLibrary = "libddpm_cuda.so";

/// Where the library may lie. Both are absolute: a name without a folder would be searched for, and an empty element of
/// LD_LIBRARY_PATH or of a RUNPATH makes that search begin in the working directory. Without /proc both are "".
std::array<std::filesystem::path, 2> places_of_library() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const auto folder = program.parent_path();
  return {folder / kLibrary, folder.parent_path() / "lib" / kLibrary};
}

/// The first of these places that has the library; "" where none has.
std::filesystem::path find_library(std::span<const std::filesystem::path> places) {
  std::error_code error;
  for (const auto& place : places) {
    if (std::filesystem::exists(place, error)) return place;
  }
  return {};
}

std::filesystem::path beside_program() {
  const auto places = places_of_library();
  auto library = find_library(places);
  if (!library.empty()) return library;
  throw base::ConfigError(
      "no GPU can be used: {} is neither in {} nor in {}; "
      "build with the CMake preset \"cuda\", or use device = \"cpu\"",
      kLibrary, places[0].parent_path().string(), places[1].parent_path().string());
}

[[noreturn]] void throw_not_loaded(const std::filesystem::path& file, const std::string& reason) {
  std::error_code error;
  const auto* advice = std::filesystem::exists(file, error)
                           ? "name the folders of the CUDA libraries that it needs in LD_LIBRARY_PATH"
                           : "build with the CMake preset \"cuda\"";
  throw base::ConfigError("GPUs cannot be used, because {} cannot be loaded ({}); {}, or use device = \"cpu\"",
                          kLibrary, reason, advice);
}

}  // namespace

DeviceLibrary::DeviceLibrary(const std::filesystem::path& path) {
  const auto file = path.empty() ? beside_program() : std::filesystem::absolute(path);
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps one message per thread
  if (library == nullptr) throw_not_loaded(file, dlerror());
  using Entry = const DeviceFunctions* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kDeviceFunctionsSymbol));
  functions_ = entry == nullptr ? nullptr : entry();
  if (functions_ == nullptr || functions_->interface != DeviceFunctions::kInterface) {
    throw base::ConfigError("{} has interface {}; this program wants {}: build both from one source", file.string(),
                            functions_ == nullptr ? 0 : functions_->interface, DeviceFunctions::kInterface);
  }
}

int DeviceLibrary::visible_devices() const {
  std::string error;
  const int count = functions_->visible_devices(error);
  if (count > 0) return count;
  throw base::ConfigError(
      "GPUs cannot be used, because this machine has no usable one ({}); use device = \"cpu\", or start on a GPU node",
      error.empty() ? "none is visible: see CUDA_VISIBLE_DEVICES" : error);
}

DeviceFacts DeviceLibrary::describe_devices() const {
  DeviceFacts facts;
  std::string error;
  if (!functions_->describe_devices(facts, error)) throw base::ConfigError("CUDA cannot describe the GPUs: {}", error);
  return facts;
}

std::unique_ptr<comm::Communicator> DeviceLibrary::make_nccl_communicator(comm::Communicator& host, int device) const {
  return functions_->make_communicator(host, device);
}

std::unique_ptr<comm::Communicator> DeviceLibrary::make_staged_communicator(comm::Communicator& host,
                                                                            int device) const {
  auto memory = functions_->open_memory(host, device);
  return std::make_unique<comm::StagedCommunicator>(host.duplicate(), std::move(memory));
}

void open_library_for_gpus() {
  if (gpu_sign(comm::process_environment()).empty()) return;
  try {
    const DeviceLibrary library;
  } catch (const base::ConfigError&) {  // NOLINT(bugprone-empty-catch): nobody has asked for a GPU yet
  }
}

void choose_nccl_settings() {
  // NOLINTBEGIN(concurrency-mt-unsafe): this is the only thread
  // Under CUDA graphs NCCL would otherwise register buffers in calls in which the ranks of a node wait for each other
  // on the host, so that a rank that cannot record would hang the others.
  setenv("NCCL_GRAPH_REGISTER", "0", /*replace=*/0);
  // Gathers of weights run beside sums of gradients, on communicators of their own. Kernels of two communicators that
  // begin in different orders on two GPUs may each wait for room that the other holds (NCCL's user guide, "Using
  // multiple NCCL communicators concurrently"); so they begin in the order of the host's calls, which is one for all.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*replace=*/0);
  // NOLINTEND(concurrency-mt-unsafe)
}

void choose_cublas_workspace() {
  if (find_library(places_of_library()).empty()) return;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this is the only thread
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);
}

bool is_instance(const DeviceFacts::Gpu& gpu) { return gpu.name.find(" MIG ") != std::string::npos; }

bool has_bf16(const DeviceFacts::Gpu& gpu) {
  constexpr int kFirstWithBf16 = 80;
  return gpu.capability == 0 || gpu.capability >= kFirstWithBf16;
}

void expect_bf16(const DeviceFacts::Gpu& gpu, const AskedPrecision& precision) {
  if (has_bf16(gpu)) return;
  throw base::ConfigError("{} on a {} (compute capability {}.{}): bf16 needs compute capability 8.0; take {}",
                          precision.asked, gpu.name, gpu.capability / 10, gpu.capability % 10, precision.possible);
}

}  // namespace ddpm::device
