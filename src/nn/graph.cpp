#include "nn/graph.h"

namespace ddpm::nn::graph {

Value record_norm(Graph& g, Value x, const Parameter* weight, const Parameter* bias, const GroupNormOptions& options,
                  const Modulation& modulation) {
  if (modulation.shift_before.exists()) x = g.add(Shift{x, modulation.shift_before});
  Value y = g.add(Normalise{x, options.groups, options.eps, weight, bias});
  if (modulation.scale.exists()) y = g.add(Modulate{y, modulation.scale, modulation.shift_after});
  return options.activation == Activation::none ? y : g.add(Activate{y, options.activation});
}

Value record_resampled(Graph& g, Value x, Resampling resampling, ResamplingFilter filter, int64_t channels) {
  if (resampling == Resampling::none) return x;
  if (filter == ResamplingFilter::box) return g.add(Box{x, resampling});
  return g.add(Filter{x, resampling, filter == ResamplingFilter::reflected_fir, channels});
}

}  // namespace ddpm::nn::graph
