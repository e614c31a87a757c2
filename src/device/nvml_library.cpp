#include "device/nvml_library.h"

#include <dlfcn.h>

namespace ddpm::device {
namespace {

template <typename Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::unique_ptr<NvmlLibrary> NvmlLibrary::open(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  std::unique_ptr<NvmlLibrary> made(new NvmlLibrary(library));
  return made->start() ? std::move(made) : nullptr;
}

bool NvmlLibrary::start() {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  if (!find_function(library_, "nvmlInit_v2", init) || !find_function(library_, "nvmlShutdown", shutdown) ||
      !find_function(library_, "nvmlDeviceGetHandleByPciBusId_v2", find_) ||
      !find_function(library_, "nvmlDeviceGetTotalEnergyConsumption", energy_) || init() != 0) {
    return false;
  }
  shutdown_ = shutdown;
  return true;
}

NvmlLibrary::~NvmlLibrary() {
  if (shutdown_ != nullptr) shutdown_();
  dlclose(library_);
}

NvmlLibrary::Device NvmlLibrary::find(const std::string& bus_id) const {
  Device device = nullptr;
  return find_(bus_id.c_str(), &device) == 0 ? device : nullptr;
}

std::optional<uint64_t> NvmlLibrary::millijoules(Device device) const {
  unsigned long long value = 0;
  if (device == nullptr || energy_(device, &value) != 0) return std::nullopt;
  return value;
}

}  // namespace ddpm::device
