// The weights of a model folder on all ranks, from one reading of the file.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "base/file_system.h"
#include "comm/communicator.h"
#include "interop/diffusers_reader.h"

namespace ddpm::denoise {

/// The weights of a model folder (interop::UNetWeights), which rank 0 opens and reads for all ranks.
class SharedWeights {
 public:
  /// Opens the files. Collective; all ranks throw an error of them together. `world` outlives this.
  SharedWeights(const base::Path& folder, interop::ExpectedShapes expected, comm::Communicator& world);
  /// Has rank 0 open them by `open`, which says what is wrong with them.
  SharedWeights(const std::function<interop::UNetWeights()>& open, interop::ExpectedShapes expected,
                comm::Communicator& world);

  /// Calls `use`, which must not throw, on every rank with each weight, in the order of `expected`. Rank 0 reads one
  /// weight at a time and sends it to the others, so that no rank ever holds more than one of them. Collective; all
  /// ranks throw an error of the file together.
  void for_each(const std::function<void(const std::string& name, const at::Tensor& values)>& use) const;

 private:
  interop::ExpectedShapes expected_;
  comm::Communicator& world_;
  std::optional<interop::UNetWeights> file_;  // open on rank 0 alone
  std::string dtypes_;                        // one at::ScalarType for each weight
};

}  // namespace ddpm::denoise
