// Bytes of model state by ZeRO stage, from a number of parameters alone: the table of docs/plan.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/json.h"

namespace ddpm::plan {

/// Bytes of one rank in one stage. Padding is not counted.
struct ZeroBytes {
  double quoted = 0.0;   ///< 2 + 2 + 8 bytes per parameter, as a widely copied table counts: no master weights
  double paper = 0.0;    ///< 2 + 2 + 12, of the ZeRO paper
  double half = 0.0;     ///< this program in bf16 or fp16, with one average: 2 + 4 + 12 + 4
  double float32 = 0.0;  ///< this program in float32, with one average: 4 + 4 + 8 + 4
};

/// Returns the bytes per rank in stages 0 to 3 of `parameters` on `ranks`, which share one copy of the state.
std::array<ZeroBytes, 4> zero_bytes(double parameters, int64_t ranks);

/// Returns zero_bytes() as a table for people, in GB (10⁹ bytes).
std::string zero_text(double parameters, int64_t ranks);
/// Returns zero_bytes() as JSON, in bytes.
base::OrderedJson zero_json(double parameters, int64_t ranks);

}  // namespace ddpm::plan
