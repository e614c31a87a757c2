// How much energy this node has used, by the counters that its hardware keeps.
//
//   Cray    PM/energy: joules of the whole node, GPUs among them. Where it is there, nothing else is counted.
//   RAPL    POWERCAP/intel-rapl:N/energy_uj, the domains whose name is "package-N": microjoules of a processor, which
//           begin anew at max_energy_range_uj (after minutes on a busy processor). AMD's processors have the same
//           files. Memory, fans and network are not in them. Many systems let only the administrator read them.
//   NVML    nvmlDeviceGetTotalEnergyConsumption: millijoules of a GPU since its driver was loaded. The driver's
//           library is opened at run time.
//
// A counter that cannot be read is not counted, and the source says which ones are.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file_system.h"

namespace ddpm::device {

/// Where the counters are found: other places serve tests.
struct EnergyPlaces {
  base::Path powercap = "/sys/class/powercap";
  base::Path cray = "/sys/cray/pm_counters";
  std::string nvml = "libnvidia-ml.so.1";
};

/// A counter that grows and begins anew at `range`.
class EnergyCounter {
 public:
  /// `read` returns the counter now, or nothing. `range` is 0 for a counter that does not begin anew; one that is
  /// smaller than before has then been set back, and counts from there.
  EnergyCounter(std::function<std::optional<uint64_t>()> read, uint64_t range, double joules_per_unit);
  /// Whether the first reading worked.
  [[nodiscard]] bool works() const { return last_.has_value(); }
  /// Whether the last reading worked. What a counter used while it did not answer is counted when it does again.
  [[nodiscard]] bool answers() const { return answers_; }
  /// To be called at least once within the time in which the counter begins anew.
  void update();
  [[nodiscard]] double joules() const { return static_cast<double>(units_) * joules_per_unit_; }

 private:
  std::function<std::optional<uint64_t>()> read_;
  uint64_t range_;
  double joules_per_unit_;
  std::optional<uint64_t> last_;
  bool answers_;
  uint64_t units_ = 0;
};

class NvmlLibrary;

/// Energy since construction. For one thread at a time.
class EnergyMeter {
 public:
  /// `gpus`: the PCI bus ids ("0000:18:00.0") of the node's GPUs that compute.
  explicit EnergyMeter(const std::vector<std::string>& gpus, const EnergyPlaces& places = {});
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  /// "pm_counters", "RAPL", "NVML", "RAPL + NVML", or "" when there is no counter that may be read.
  [[nodiscard]] const std::string& source() const { return source_; }
  void update();
  /// Nothing without counters, and while one of them does not answer: the sum of the others would be too small.
  [[nodiscard]] std::optional<double> joules() const;

 private:
  void add(const std::string& source, std::vector<EnergyCounter> counters);

  std::unique_ptr<NvmlLibrary> nvml_;
  std::vector<EnergyCounter> counters_;
  std::string source_;
};

/// A meter that a thread reads often enough to see each counter begin anew.
class EnergyWatch {
 public:
  explicit EnergyWatch(const std::vector<std::string>& gpus, const EnergyPlaces& places = {},
                       std::chrono::milliseconds every = kEvery);
  ~EnergyWatch();
  EnergyWatch(const EnergyWatch&) = delete;
  EnergyWatch& operator=(const EnergyWatch&) = delete;

  [[nodiscard]] std::string source();
  /// Up to now.
  [[nodiscard]] std::optional<double> joules();

  /// The smallest range of RAPL is 65 kJ, which a processor of 400 W counts through in 160 s.
  static constexpr std::chrono::milliseconds kEvery{20'000};

 private:
  void keep_reading(std::chrono::milliseconds every);

  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  EnergyMeter meter_;
  std::thread thread_;
};

}  // namespace ddpm::device
