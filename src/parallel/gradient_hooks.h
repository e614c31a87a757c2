// Post-accumulate-grad hooks on all parameters of an arena.
#pragma once

#include <cstddef>
#include <functional>

#include "parallel/parameter_arena.h"

namespace ddpm::parallel {

/// While it lives, `callback(entry index)` runs whenever backward has left a fresh gradient in a parameter's .grad.
class GradientHooks {
 public:
  using Callback = std::function<void(std::size_t index)>;

  GradientHooks(const ParameterArena& arena, Callback callback);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  const ParameterArena& arena_;
  Callback callback_;
};

}  // namespace ddpm::parallel
