// `ddpm bench comm`: what collectives between the ranks take, and the α and β that `ddpm plan` wants.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/spread.h"
#include "device/device_choice.h"
#include "run/runtime.h"

namespace ddpm::bench {

enum class Collective : uint8_t { all_reduce, reduce_scatter, all_gather };
constexpr auto names_of(Collective /*type*/) {
  return std::to_array<std::string_view>({"all_reduce", "reduce_scatter", "all_gather"});
}

struct CommBenchOptions {
  int64_t repeats = 7;
  int64_t min_bytes = 4096;               ///< the smallest buffer; they grow by factors of 4
  int64_t max_bytes = int64_t{64} << 20;  ///< the largest
  std::vector<Collective> kinds = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather};
  std::function<void(int64_t bytes)> begin_size = {};  ///< called before each size, on every rank
};

/// One collective of one size, between all ranks.
struct CollectiveTime {
  Collective kind = Collective::all_reduce;
  int64_t bytes = 0;       ///< bytes of the whole buffer
  Spread seconds;          ///< time of the slowest rank
  double predicted = 0.0;  ///< seconds by the fitted ring

  /// What each rank sends per second: (n-1)/n of the buffer, twice for an all-reduce.
  [[nodiscard]] double bytes_per_second(int64_t ranks) const;
};

/// A ring's time is T = c (n-1) α + c (n-1)/n · bytes β, with c = 2 for an all-reduce and c = 1 otherwise
/// (plan/step_time.h).
struct RingFit {
  double alpha = 0.0;  ///< seconds per message
  double beta = 0.0;   ///< seconds per byte
};

/// The α >= 0 and β that fit the medians of `times` with the least squared relative error; at least two sizes.
RingFit fit_ring(const std::vector<CollectiveTime>& times, int64_t ranks);
double predict(const RingFit& fit, Collective kind, int64_t bytes, int64_t ranks);

struct CommBench {
  int64_t ranks = 0;
  int64_t hosts = 0;
  std::string device;
  Spread latency;  ///< seconds of a small message from rank 0 to the last rank, one way
  std::vector<CollectiveTime> times;
  RingFit fit;
};

/// Measures collectives between all ranks, in float32 and in the memory of run.device `device`. Throws ConfigError when
/// there is one rank only. Collective.
CommBench bench_comm(device::DeviceChoice device, const run::Runtime& runtime, const CommBenchOptions& options);

}  // namespace ddpm::bench
