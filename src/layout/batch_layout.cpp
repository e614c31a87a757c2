#include "layout/batch_layout.h"

#include <fmt/format.h>

#include "base/error.h"

namespace ddpm::layout {

std::string BatchLayout::refusal(int64_t global_size, int64_t micro_size, int64_t data_parallel_size) {
  const bool positive = global_size > 0 && micro_size > 0 && data_parallel_size > 0;
  // Compared by division first: the product of absurd sizes must not overflow.
  if (positive && micro_size <= global_size / data_parallel_size &&
      global_size % (micro_size * data_parallel_size) == 0) {
    return "";
  }
  return fmt::format(
      "batch.global_size = {} does not divide into micro-batches: it must be a positive multiple of batch.micro_size × "
      "data-parallel ranks = {} × {} = {:.0f}",
      global_size, micro_size, data_parallel_size,
      static_cast<double>(micro_size) * static_cast<double>(data_parallel_size));
}

BatchLayout BatchLayout::make(int64_t global_size, int64_t micro_size, int64_t data_parallel_size) {
  const std::string why = refusal(global_size, micro_size, data_parallel_size);
  if (!why.empty()) throw base::ConfigError("{}", why);
  return {global_size, micro_size, data_parallel_size};
}

}  // namespace ddpm::layout
