// The parts of a training that have deadlines of their own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddpm::engine {

/// All ranks go through them in the same order.
enum class RunPhase : uint8_t { start, images, model, gradients, update, checkpoint, validation, samples, finish };
inline constexpr std::size_t kRunPhases = static_cast<std::size_t>(RunPhase::finish) + 1;

}  // namespace ddpm::engine
