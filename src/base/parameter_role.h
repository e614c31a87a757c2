// What training does with a tensor of a model.
#pragma once

#include <cstdint>

namespace ddpm::base {

enum class ParameterRole : uint8_t {
  trained,     ///< has a gradient, moments and averages, which are sharded as [parallel] says
  frozen,      ///< a weight that takes part in forward, in the type that it computes in, and does not change
  constant,    ///< what travels with the model in a type of its own: random frequencies, a module's buffers
  pretrained,  ///< a frozen weight that every start of a run reads anew from model.pretrained: no checkpoint holds it
};

}  // namespace ddpm::base
