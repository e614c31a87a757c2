// Prints the bytes per second at which the flat passes go through memory, beside a copy:  optim_bandwidth [THREADS]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/ema.h"

namespace {

using namespace ddpm;

constexpr std::size_t kCount = 11'500'000;
constexpr int kRepeats = 15;

using Pass = std::function<void(std::size_t begin, std::size_t end)>;

void on_threads(std::size_t threads, const Pass& pass) {
  std::vector<std::jthread> pool;
  for (std::size_t i = 0; i < threads; ++i) {
    pool.emplace_back([&, i] { pass(kCount * i / threads, kCount * (i + 1) / threads); });
  }
}

/// The fastest of several runs: the one least disturbed.
void measure(const char* name, double bytes_per_element, std::size_t threads, const Pass& pass) {
  double best = 1e9;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    on_threads(threads, pass);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  fmt::print("{:<16} {} threads {:7.2f} ms {:6.1f} GB/s\n", name, threads, best * 1e3,
             bytes_per_element * static_cast<double>(kCount) / best * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t threads = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  std::vector<float> p(kCount, 1.0F), g(kCount, 0.1F), m(kCount), v(kCount), average(kCount);
  const auto part = [](std::vector<float>& all, std::size_t begin, std::size_t end) {
    return std::span(all).subspan(begin, end - begin);
  };
  const optim::AdamWStep step{.learning_rate = 1e-4, .applied_step = 10};
  const auto adamw = [&](std::size_t b, std::size_t e) {
    optim::adamw_update({}, step, part(p, b, e), part(g, b, e), part(m, b, e), part(v, b, e));
  };
  const auto ema = [&](std::size_t b, std::size_t e) { optim::ema_update(0.999, part(average, b, e), part(p, b, e)); };
  const auto blocked = [&](std::size_t begin, std::size_t end) {
    constexpr std::size_t kBlock = 16384;
    for (std::size_t b = begin; b < end; b += kBlock) {
      adamw(b, std::min(end, b + kBlock));
      ema(b, std::min(end, b + kBlock));
    }
  };
  measure("memcpy", 8, threads, [&](std::size_t b, std::size_t e) { std::memcpy(&average[b], &p[b], 4 * (e - b)); });
  measure("adamw", 28, threads, adamw);
  measure("ema", 12, threads, ema);
  measure("adamw+ema", 36, threads, blocked);
  double sum = 0.0;
  measure("sum of squares", 4, 1, [&](std::size_t b, std::size_t e) { sum += optim::sum_of_squares(part(g, b, e)); });
  return sum > 0.0 ? 0 : 1;
}
