// A model that is not ours, put together from plain tensors, and its training by ModelTrainer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "comm/communicator.h"
#include "support/temporary_folder.h"
#include "train/model_trainer.h"

namespace ddpm::train::test {

inline constexpr int64_t kWidth = 12;
inline constexpr int64_t kGlobalSize = 16;

comm::MpiSession& session();
comm::Communicator& world();

/// Waves between -0.5 and 0.5, the same on every rank.
at::Tensor values(at::IntArrayRef shape, double frequency);

/// A convolution, a linear layer, a number that is learned, and a scale and counter that are not.
struct Model {
  at::Tensor conv = values({kWidth, 1, 3, 3}, 0.7);
  at::Tensor linear = values({1, kWidth}, 1.3);
  at::Tensor bias = at::zeros({});
  at::Tensor scale = at::full({kWidth, 1, 1}, 1.5);
  at::Tensor calls = at::zeros({}, at::kLong);
  at::Tensor alias = conv;  ///< modules hold a parameter in more places than one

  [[nodiscard]] OwnModel own(std::vector<std::string> units = {}) const;
  [[nodiscard]] at::Tensor body(const at::Tensor& x) const;  ///< [n, 1, 6, 6] to [n, kWidth]
  [[nodiscard]] at::Tensor head(const at::Tensor& x) const;  ///< [n, kWidth] to [n, 1]
};

/// Images [n, 1, 6, 6] of a micro-batch.
at::Tensor images(const MicroBatchPosition& position);

struct Case {
  int64_t stage = 0;
  std::vector<std::string> units = {};
  std::string precision = "no";
  int64_t micro_size = 2;
  int64_t steps = 6;
  int64_t every = 0;
  bool reproducible = false;
  [[nodiscard]] std::string text() const;
};

struct Result {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, at::Tensor> weights;
  int64_t calls = 0;
  bool resumed = false;
};

/// Settings of `chosen` for a run in `directory`, loaded. Collective.
void configure(TrainerConfiguration& configuration, const Case& chosen, const base::Path& directory);

/// Trains a Model, at most `stop_after` steps of it in this call. Collective.
Result train(const Case& chosen, const base::Path& directory, int64_t stop_after = 1000);

/// Rank 0's folder, on every rank. Collective.
base::Path shared_folder(const ddpm::test::TemporaryFolder& own);

}  // namespace ddpm::train::test
