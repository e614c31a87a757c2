// Samples as a dataset folder, which all ranks write.
//
// The samples are cut into shards, as a function of their number and size alone. The ranks take the shards in turn that
// an earlier command has not finished, and nothing appears under the output's name before all are (see
// data/growing_folder.h). A sample's bytes depend on its number and on `identity`, not on ranks and batches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/field.h"
#include "denoise/sample_inputs.h"
#include "run/runtime.h"

namespace ddpm::denoise {

/// An array of the dataset with one number for each sample, such as its label.
struct NumberColumn {
  std::string path;  ///< "/labels"
  std::function<int64_t(int64_t sample)> number;
};

/// The class of each sample, where it has one, in /labels; where datasets give conditions, the number of the sample's
/// condition in /condition_index and of the sample among that condition's in /member. `inputs` must outlive them.
std::vector<NumberColumn> number_columns(const SampleInputs& inputs);
/// The numbers of samples [first, first + n), of each column in turn.
std::vector<std::vector<int64_t>> numbers_of(const std::vector<NumberColumn>& columns, int64_t first, int64_t n);

struct SampleDataset {
  base::Path output;                     ///< a plain path
  int64_t count = 0;                     ///< samples
  std::vector<data::Field> fields;       ///< the images, and the labels where there is such a column
  std::vector<std::string> class_names;  ///< what labels 0, 1, ... are called; may be empty
  std::vector<NumberColumn> columns;
  std::string identity;  ///< all that a sample depends on besides its number, in lines
};

/// Makes a group of samples [first, first + n): [n, height, width, channels] in the stored type, contiguous, on the
/// host. Calls `progress` now and then with the share of the work that is done.
using MakeSamples =
    std::function<at::Tensor(int64_t first, int64_t n, const std::function<void(double done)>& progress)>;

struct SampledDataset {
  int64_t shards = 0;
  int64_t reused_shards = 0;   ///< taken over from an earlier command that did not finish
  int64_t reused_samples = 0;  ///< in them
  bool was_complete = false;   ///< the same command had made all of them
};

inline constexpr int64_t kLargestGroup = 16;

/// How many samples of a set are made together. Some kernels' sums depend on how many images they see at once, so this
/// follows from the number of samples and the pixels of each alone, and groups begin at multiples of it; only the last
/// one may be smaller. Sets of less than 256 samples have smaller groups than kLargestGroup, so that 16 ranks have
/// work, and so have samples of more than 512 × 512 pixels, or as many of a volume, for which memory would not do.
int64_t sample_group(int64_t samples, int64_t pixels);

/// How many samples, or windows of them, of so many pixels are computed at once at most.
int64_t largest_group(int64_t pixels);

/// How many shards so many samples of that size make: of whole groups, at most 256, unless one would be larger than
/// 1 GiB.
int64_t sample_shards(int64_t samples, int64_t pixels, uint64_t sample_bytes);

/// Collective; returns the same on every rank. Throws ConfigError or OutputError when the output cannot be made, or is
/// there and was made by another command, and what `make` throws; the same command then continues after what was
/// finished, and does nothing once all is.
SampledDataset write_samples(const SampleDataset& set, const MakeSamples& make, const run::Runtime& runtime);

}  // namespace ddpm::denoise
