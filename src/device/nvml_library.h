// NVIDIA's management library, which comes with the driver: opened at run time, so that the program is the same on
// machines without one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace ddpm::device {

class NvmlLibrary {
 public:
  using Device = void*;

  /// Null where the library is not there, has no energy counters, or does not start. A `name` without a folder is
  /// looked for where the system has its libraries.
  static std::unique_ptr<NvmlLibrary> open(const std::string& name);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  /// The GPU with that PCI bus id; null when NVML does not know it.
  [[nodiscard]] Device find(const std::string& bus_id) const;
  /// What the GPU used since its driver was loaded; nothing where it cannot tell (before the generation of Volta) or
  /// `device` is null.
  [[nodiscard]] std::optional<uint64_t> millijoules(Device device) const;

 private:
  explicit NvmlLibrary(void* library) : library_(library) {}
  bool start();

  // The functions as nvml.h declares them; 0 is success.
  void* library_;
  int (*shutdown_)() = nullptr;
  int (*find_)(const char*, Device*) = nullptr;
  int (*energy_)(Device, unsigned long long*) = nullptr;
};

}  // namespace ddpm::device
