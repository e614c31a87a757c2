#include "layout/batch_layout.h"

#include "base/error.h"

namespace ddpm::layout {

BatchLayout BatchLayout::make(int64_t global_size, int64_t micro_size, int64_t data_parallel_size) {
  const BatchLayout layout{global_size, micro_size, data_parallel_size};
  const int64_t unit = micro_size * data_parallel_size;
  if (unit <= 0 || global_size <= 0 || global_size % unit != 0) {
    throw base::ConfigError(
        "batch.global_size = {} does not divide into micro-batches: it must be a multiple of batch.micro_size × "
        "data-parallel ranks = {} × {} = {}",
        global_size, micro_size, data_parallel_size, unit);
  }
  return layout;
}

}  // namespace ddpm::layout
