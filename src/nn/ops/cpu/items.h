// Work that falls into independent items, dealt to threads as they ask for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <ATen/Parallel.h>

#include "nn/ops/cpu/dispatch.h"

namespace ddpm::nn::cpu {

/// Calls work(item, scratch) for all items, with so many floats of scratch memory for each thread. A thread takes the
/// next few when it has done its last ones: where other programs use the processor too, cores differ in speed, with
/// products of tiles by three.
template <typename Work>
void for_items(int64_t count, int64_t scratch, const Work& work) {
  constexpr int64_t kTurns = 8;  // of each thread, if there are so many items: the last one is an eighth of its work
  const int64_t threads = std::clamp<int64_t>(count, 1, at::get_num_threads());
  const int64_t few = std::max<int64_t>(1, count / (threads * kTurns));
  std::atomic<int64_t> next = 0;
  at::parallel_for(0, threads, 1, [&](int64_t /*begin*/, int64_t /*end*/) {
    const auto lines = std::make_unique_for_overwrite<Line[]>(static_cast<std::size_t>((scratch + 15) / 16));
    for (int64_t first = next.fetch_add(few); first < count; first = next.fetch_add(few)) {
      for (int64_t item = first; item < std::min(first + few, count); ++item) work(item, lines[0].floats);
    }
  });
}

}  // namespace ddpm::nn::cpu
