// What sampling gives a model beside noisy images: conditions, static values and parameters of a dataset, positions,
// and the class; and which pixels have values (sample_mask.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/dataset.h"
#include "denoise/loaded_model.h"
#include "nn/unit.h"
#include "run/runtime.h"

namespace ddpm::denoise {

struct SampleInputOptions {
  std::string dataset = {};                           ///< path of the set with conditions; empty: none
  int64_t members = 1;                                ///< how many samples each condition gets
  std::vector<double> parameters = {};                ///< given to all samples, as a dataset stores them; empty: none
  std::optional<int64_t> class_label = std::nullopt;  ///< the class of all samples
  bool all_classes = false;                           ///< sample i has class i / members modulo the number of classes
  bool guides_itself = false;  ///< samples are guided from what the model draws without class and conditions
};

/// What a batch of samples is drawn given.
struct Given {
  at::Tensor beside = {};  ///< float32 [n, C', H, W]: further input channels; undefined: none
  nn::Conditions conditions = {};
  at::Tensor valid = {};  ///< bool [n, 1, H, W]: where the images have values; undefined: everywhere
};
/// What samples are given, and for guidance beside it what is left without all that training left out now and then.
struct GivenTwice {
  Given whole;
  Given without = {};  ///< without classes and conditions
};

class SampleInputs {
 public:
  /// Opens the dataset. Refuses what the model does not take, and a model that takes what is not given: ConfigError;
  /// DatasetError for a dataset whose fields are not those of the training set. Collective.
  static SampleInputs open(const LoadedModel& model, const SampleInputOptions& options, const run::Runtime& runtime,
                           at::Device device);
  /// Takes a dataset that is open, or none, and refuses as open() does; options.dataset is not read.
  static SampleInputs of_set(const LoadedModel& model, const SampleInputOptions& options,
                             std::optional<data::Dataset> dataset, comm::Communicator& world, at::Device device);
  ~SampleInputs();
  SampleInputs(SampleInputs&&) noexcept;
  SampleInputs& operator=(SampleInputs&&) noexcept;

  /// As many samples as conditions and members make; 0: any number. Sample i is member i mod members of the condition
  /// numbered i / members.
  [[nodiscard]] int64_t samples() const;
  [[nodiscard]] int64_t members() const;
  /// The class of a sample, or none.
  [[nodiscard]] std::optional<int64_t> label(int64_t sample) const;
  /// What samples [first, first + n) are given. Reads the dataset, once; may be called on one rank alone.
  [[nodiscard]] Given of(int64_t first, int64_t n) const;
  /// What samples [first, first + n) are given with and without what training left out.
  [[nodiscard]] GivenTwice with_and_without(int64_t first, int64_t n) const;
  /// Throws ConfigError, which begins with `option`, when training left out nothing that is given here.
  void expect_droppable(const std::string& option) const;
  /// The class that guidance takes for the null class though no record of the model's training says that it is; none
  /// where it takes none, or a record says so.
  [[nodiscard]] std::optional<int64_t> presumed_null_class() const;
  /// Everything that it gives the first `count` samples depends on, as a text. Reads their conditions where the
  /// dataset's files have no digests.
  [[nodiscard]] std::string identity(int64_t count) const;
  /// Closes the dataset. Collective.
  void close(comm::Communicator& world);

 private:
  struct State;
  explicit SampleInputs(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ddpm::denoise
