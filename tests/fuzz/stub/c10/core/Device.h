// Stands for LibTorch's header, whose class stands in declarations and default arguments.
#pragma once

namespace c10 {
enum class DeviceType { CPU };
struct Device {
  Device(DeviceType /*type*/) {}
};
}  // namespace c10
