#include "device/affinity.h"

#include <cstddef>

#include <sched.h>

namespace ddpm::device {
namespace {

constexpr int kMostCpus = 8192;

/// cpu_set_t itself holds 1024.
class Mask {
 public:
  Mask() : set_(CPU_ALLOC(kMostCpus)) { CPU_ZERO_S(kBytes, set_); }
  ~Mask() { CPU_FREE(set_); }
  Mask(const Mask&) = delete;
  Mask& operator=(const Mask&) = delete;

  static constexpr std::size_t kBytes = CPU_ALLOC_SIZE(kMostCpus);
  [[nodiscard]] cpu_set_t* get() const { return set_; }
  [[nodiscard]] bool has(int cpu) const { return CPU_ISSET_S(static_cast<std::size_t>(cpu), kBytes, set_); }
  void add(int cpu) { CPU_SET_S(static_cast<std::size_t>(cpu), kBytes, set_); }

 private:
  cpu_set_t* set_;
};

}  // namespace

std::vector<int> affinity_cpus() {
  std::vector<int> cpus;
  const Mask mask;
  if (sched_getaffinity(0, Mask::kBytes, mask.get()) != 0) return cpus;
  for (int cpu = 0; cpu < kMostCpus; ++cpu) {
    if (mask.has(cpu)) cpus.push_back(cpu);
  }
  return cpus;
}

bool set_affinity(std::span<const int> cpus) {
  Mask mask;
  for (const int cpu : cpus) {
    if (cpu >= 0 && cpu < kMostCpus) mask.add(cpu);
  }
  return sched_setaffinity(0, Mask::kBytes, mask.get()) == 0;
}

}  // namespace ddpm::device
