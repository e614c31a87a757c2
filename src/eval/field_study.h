// Samples of fields against the data, for `ddpm eval fields --data`.
//
// Where samples belong to conditions, each condition's members are held against the image of the data with the
// condition's number: the units are conditions, and all errors are those over conditions. Otherwise the samples and the
// data are two draws, each with its own error.
#pragma once

#include <cstdint>
#include <vector>

#include "base/progress_report.h"
#include "comm/communicator.h"
#include "data/radial_spectrum.h"
#include "eval/distribution.h"
#include "eval/field_rows.h"
#include "eval/sample_cursor.h"

namespace ddpm::eval {

class FieldStudy {
 public:
  /// The sets have the data's variables (SampleSet::as_stored_in), and the same `ensembles`: without conditions they
  /// are not paired. All live on. The errors of `block` successive images of the data go together.
  /// `progress` is told how many samples this rank has read, and how many it reads in all.
  FieldStudy(comm::Communicator& comm, const SampleSet& data, const std::vector<SampleSet>& a,
             const std::vector<SampleSet>& b, const Ensembles& ensembles, int64_t block, base::ProgressReport progress);

  /// Collective. Appends metrics and comparisons of all variables. Throws DatasetError's code on all ranks for values
  /// that cannot be used.
  void run(Result& result);

 private:
  [[nodiscard]] bool paired() const { return !ensembles_.conditions.empty(); }
  [[nodiscard]] int64_t data_units() const;
  [[nodiscard]] int64_t data_image(int64_t unit) const;
  [[nodiscard]] int64_t units_of(const SampleSet& set) const;
  [[nodiscard]] std::span<const uint8_t> valid_of(SampleCursor& data, int64_t unit);
  void count(int64_t samples);

  void lay_out();
  void survey();
  void find_centres();
  void survey_data();
  void survey_set(const SampleSet& set, std::vector<Distribution>& distributions);
  [[nodiscard]] Marks marks(std::size_t variable, const Distribution& own) const;
  [[nodiscard]] BlockSums sums_of_data();
  [[nodiscard]] BlockSums sums_of_set(std::size_t place);
  void add_condition(std::size_t set, int64_t unit, std::span<const float> x, std::span<const float> y,
                     std::span<const uint8_t> valid, std::span<double> sums);
  void report(Result& result, const Evidence& evidence) const;

  comm::Communicator& comm_;
  const SampleSet& data_;
  std::vector<const SampleSet*> sets_;  // the sets of A, then those of B
  std::size_t of_a_;                    // how many sets A has
  Ensembles ensembles_;
  int64_t block_;
  base::ProgressReport progress_;
  data::RadialSpectrum spectrum_;
  std::size_t pixels_;
  std::vector<uint8_t> shared_valid_;  // which pixels of unpaired samples are valid
  std::vector<VariableSums> variables_;
  std::size_t width_ = 0;
  std::vector<Distribution> of_data_;               // [variable]
  std::vector<std::vector<Distribution>> of_sets_;  // [set][variable]
  std::vector<Marks> marks_of_data_;                // [variable]
  std::vector<std::vector<Marks>> marks_;           // [set][variable]
  int64_t done_ = 0;
  int64_t total_ = 0;
};

}  // namespace ddpm::eval
