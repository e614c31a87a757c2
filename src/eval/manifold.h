// How much of the samples lies where the data is, and the other way round, in a space of features. A set's manifold is
// the union of balls around its features that reach to the k-th nearest feature of the same set.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"

namespace ddpm::eval {

/// What each feature says of the four numbers, whose values are the means, float64.
struct ManifoldScores {
  /// Kynkäänniemi, Karras, Laine, Lehtinen, Aila, "Improved precision and recall metric for assessing generative
  /// models", 2019: 1 for a sample in the data's manifold.
  at::Tensor precision;  // [N]
  at::Tensor recall;     // [M]: 1 for data in the samples' manifold
  /// Naeem, Oh, Uh, Choi, Yoo, "Reliable fidelity and diversity metrics for generative models", 2020: in how many of
  /// the data's balls a sample is, by k.
  at::Tensor density;   // [N]
  at::Tensor coverage;  // [M]: 1 for data whose ball holds a sample
};

/// `samples` [N, D] and `data` [M, D] are float64, with N and M above `neighbours`. The same bits on any number of
/// ranks. Collective.
ManifoldScores manifold_scores(comm::Communicator& world, const at::Tensor& samples, const at::Tensor& data,
                               int64_t neighbours);

}  // namespace ddpm::eval
