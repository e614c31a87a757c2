// The pictures of a set that are evaluated, and what the ranks learn of them together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <ATen/core/Tensor.h>

#include "base/progress_report.h"
#include "comm/communicator.h"
#include "eval/feature_map.h"
#include "eval/picture_statistics.h"
#include "eval/sample_set.h"
#include "layout/range.h"

namespace ddpm::eval {

/// All pictures of a set, or some that lie evenly over it, on the scale of the model.
class PictureSet {
 public:
  /// `most`: so many pictures at most; 0: all. `set` outlives this object.
  PictureSet(const SampleSet& set, int64_t most);

  [[nodiscard]] const SampleSet& set() const { return set_; }
  [[nodiscard]] int64_t size() const { return count_; }
  /// The place in the set of picture `i`.
  [[nodiscard]] int64_t place(int64_t i) const;
  [[nodiscard]] int64_t values() const { return set_.channels() * set_.pixels(); }  ///< numbers that one picture has
  /// Pictures [first, first + n), float32 [n, C, H, W]. May be called on one rank alone. Throws DatasetError.
  [[nodiscard]] at::Tensor read(int64_t first, int64_t n) const;

 private:
  const SampleSet& set_;
  int64_t count_;
};

/// Deals blocks of `block` pictures to the ranks, which hand them to `work`; it makes no collective call. Each of them
/// calls `progress` now and then. Collective.
void for_each_block(comm::Communicator& world, const PictureSet& pictures, int64_t block,
                    const std::function<void(layout::Range range, const at::Tensor& pictures)>& work,
                    const base::ProgressReport& progress);

/// The rows of all pictures (PictureStatistics::measure), float64 [n, width], on every rank. Collective.
at::Tensor statistic_rows(comm::Communicator& world, const PictureSet& pictures, PictureStatistics& statistics,
                          const base::ProgressReport& progress);
/// The features of all pictures, float64 [n, D], on every rank. Throws OutputError's code on all ranks where D is not
/// the same of all pictures, or not `width`; 0: of any. Collective.
at::Tensor features_of(comm::Communicator& world, const PictureSet& pictures, const FeatureMap& map,
                       const base::ProgressReport& progress, int64_t width = 0);
/// All pictures themselves, float32 [n, values()], on every rank. Collective.
at::Tensor pixels_of(comm::Communicator& world, const PictureSet& pictures, const base::ProgressReport& progress);

}  // namespace ddpm::eval
