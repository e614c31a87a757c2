// `ddpm bench io`: how fast a data set's images come, beside what the file system gives.
#pragma once

#include <cstdint>

#include "bench/spread.h"
#include "run/runtime.h"
#include "train/config.h"

namespace ddpm::bench {

struct IoBenchOptions {
  int64_t repeats = 3;
  int64_t max_bytes = int64_t{2} << 30;  ///< image bytes that all ranks together read per pass, at most
  bool cold = true;  ///< the kernel forgets the files' pages before each pass (posix_fadvise): not those of a server
};

/// Figures are those of all ranks together. A pass is as long as its slowest rank.
struct IoBench {
  int64_t images = 0;       ///< read per pass
  int64_t image_bytes = 0;  ///< size of one image
  int64_t read_bytes = 0;   ///< what training reads of one image: fewer where windows are read in place of whole images
  Spread raw;               ///< bytes per second: the shards' bytes one after another, with read(2) of 4 MiB
  Spread blocks;            ///< bytes per second: images in stored order, in blocks of 4 MiB, checksums checked
  Spread training;          ///< bytes per second: micro-batches as training reads them, shuffled

  [[nodiscard]] double images_per_second() const { return training.median / static_cast<double>(read_bytes); }
};

/// Reads data.train as training would. Collective.
IoBench bench_io(train::Configuration& configuration, const run::Runtime& runtime, const IoBenchOptions& options);

}  // namespace ddpm::bench
