#include "bench/comm_bench.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/collectives.h"
#include "device/choose_device.h"

namespace ddpm::bench {
namespace {

double sends(Collective kind) { return kind == Collective::all_reduce ? 2.0 : 1.0; }

class Bench {
 public:
  Bench(device::DeviceChoice device, const run::Runtime& runtime, const CommBenchOptions& options)
      : options_(options),
        world_(runtime.session.world()),
        device_(device::choose_device(device, runtime.session, runtime.log)),
        data_parallel_(device_, runtime.session),
        comm_(data_parallel_.communicator()) {}

  CommBench run(const std::string& host) {
    CommBench result;
    result.ranks = world_.size();
    result.device = device_.str();
    const std::vector<std::string> hosts = comm::all_gather(world_, host);
    result.hosts = std::ssize(std::set<std::string>(hosts.begin(), hosts.end()));
    result.latency = latency();
    for (int64_t bytes = options_.min_bytes; bytes <= options_.max_bytes; bytes *= 4) {
      if (options_.begin_size) options_.begin_size(bytes);
      for (const Collective kind : options_.kinds) result.times.push_back(time(kind, bytes));
    }
    result.fit = fit_ring(result.times, result.ranks);
    for (CollectiveTime& one : result.times) one.predicted = predict(result.fit, one.kind, one.bytes, result.ranks);
    return result;
  }

 private:
  [[nodiscard]] at::Tensor buffer(int64_t elements) const {
    return at::ones({elements}, at::TensorOptions().device(device_).dtype(at::kFloat));
  }
  static comm::Buffer part(const at::Tensor& flat, int64_t begin, int64_t count) {
    return {flat.mutable_data_ptr<float>() + begin, count, base::DType::f32};
  }
  void synchronize() const {
    if (!device_.is_cpu()) c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
  }

  /// Seconds of `work` on the slowest rank, from a common start.
  double seconds_of(const std::function<void()>& work) {
    synchronize();
    world_.barrier().wait();
    const auto start = base::Clock::now();
    work();
    synchronize();
    const double seconds = base::seconds_since(start);
    return comm::all_reduce(world_, seconds, comm::ReduceOp::max);
  }

  Spread latency() {
    const at::Tensor value = buffer(1);
    const int last = world_.size() - 1;
    const auto there_and_back = [&] {
      if (world_.rank() == 0) {
        comm_.send(part(value, 0, 1), last, 0).wait();
        comm_.receive(part(value, 0, 1), last, 0).wait();
      } else if (world_.rank() == last) {
        comm_.receive(part(value, 0, 1), 0, 0).wait();
        comm_.send(part(value, 0, 1), 0, 0).wait();
      }
    };
    return measured([&] { return seconds_of(there_and_back) / 2.0; }, 10 * options_.repeats);
  }

  CollectiveTime time(Collective kind, int64_t bytes) {
    const int64_t ranks = world_.size();
    const int64_t count = std::max<int64_t>(1, bytes / static_cast<int64_t>(sizeof(float)) / ranks);  // per rank
    const at::Tensor whole = buffer(count * ranks);
    const int64_t own = world_.rank() * count;
    const auto work = [&] {
      switch (kind) {
        case Collective::all_reduce:
          return comm_.all_reduce(part(whole, 0, count * ranks), comm::ReduceOp::max).wait();
        case Collective::reduce_scatter:
          return comm_.reduce_scatter(part(whole, 0, count * ranks), part(whole, own, count), comm::ReduceOp::max)
              .wait();
        case Collective::all_gather:
          return comm_.all_gather(part(whole, own, count), part(whole, 0, count * ranks)).wait();
      }
    };
    CollectiveTime result;
    result.kind = kind;
    result.bytes = count * ranks * static_cast<int64_t>(sizeof(float));
    result.seconds = measured([&] { return seconds_of(work); }, options_.repeats);
    return result;
  }

  /// The first call warms up connections and registered memory and is not measured.
  static Spread measured(const std::function<double()>& seconds, int64_t repeats) {
    seconds();
    std::vector<double> all;
    for (int64_t i = 0; i < repeats; ++i) all.push_back(seconds());
    return spread_of(std::move(all));
  }

  CommBenchOptions options_;
  comm::Communicator& world_;
  c10::Device device_;
  device::DataParallelDevice data_parallel_;
  comm::Communicator& comm_;
};

}  // namespace

double CollectiveTime::bytes_per_second(int64_t ranks) const {
  const auto n = static_cast<double>(ranks);
  return sends(kind) * (n - 1.0) / n * static_cast<double>(bytes) / seconds.median;
}

double predict(const RingFit& fit, Collective kind, int64_t bytes, int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  return sends(kind) * (n - 1.0) * (fit.alpha + static_cast<double>(bytes) / n * fit.beta);
}

RingFit fit_ring(const std::vector<CollectiveTime>& times, int64_t ranks) {
  // Least squares of (a α + b β) / t - 1, with the two coefficients of each measurement.
  double aa = 0.0, ab = 0.0, bb = 0.0, a1 = 0.0, b1 = 0.0;
  for (const CollectiveTime& one : times) {
    const double a = predict({1.0, 0.0}, one.kind, one.bytes, ranks) / one.seconds.median;
    const double b = predict({0.0, 1.0}, one.kind, one.bytes, ranks) / one.seconds.median;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    a1 += a;
    b1 += b;
  }
  const double determinant = aa * bb - ab * ab;
  const RingFit fit{(bb * a1 - ab * b1) / determinant, (aa * b1 - ab * a1) / determinant};
  if (fit.alpha >= 0.0 && fit.beta >= 0.0) return fit;
  return fit.alpha < 0.0 ? RingFit{0.0, b1 / bb} : RingFit{a1 / aa, 0.0};
}

CommBench bench_comm(device::DeviceChoice device, const run::Runtime& runtime, const CommBenchOptions& options) {
  if (runtime.session.size() < 2) {
    throw base::ConfigError(
        "bench comm measures between ranks: 1 was started, 2 or more are wanted (mpirun -np 2 ...)");
  }
  return Bench(device, runtime, options).run(runtime.session.host_name());
}

}  // namespace ddpm::bench
