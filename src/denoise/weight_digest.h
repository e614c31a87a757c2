// Tells whether the weights of two models are the same.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "base/sha256.h"

namespace ddpm::denoise {

/// SHA-256 over names, types and values of weights, in the order in which they are added.
class WeightDigest {
 public:
  void add(const std::string& name, const at::Tensor& values);
  void add_text(const std::string& text) { digest_.update(text); }
  /// The object may not be used afterwards.
  [[nodiscard]] std::string hex() { return digest_.hex(); }

 private:
  base::Sha256 digest_;
};

}  // namespace ddpm::denoise
