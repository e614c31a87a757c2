#include "data/field_statistics.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "comm/collectives.h"
#include "data/image_sweep.h"
#include "data/radial_spectrum.h"
#include "data/variable_plane.h"
#include "layout/range.h"

namespace ddpm::data {
namespace {

constexpr int64_t kSweeps = 2;
/// Integers that are added up over the ranks at once.
constexpr std::size_t kMostPacked = std::size_t{1} << 20U;

/// Adds up the elements of `parts` over the ranks. Collective.
void sum_over_ranks(comm::Communicator& comm, const std::vector<std::span<int64_t>>& parts) {
  std::vector<int64_t> packed;
  for (std::size_t first = 0, end = 0; first < parts.size(); first = end) {
    packed.clear();
    for (; end < parts.size() && (end == first || packed.size() + parts[end].size() <= kMostPacked); ++end) {
      packed.insert(packed.end(), parts[end].begin(), parts[end].end());
    }
    comm::all_reduce(comm, packed, comm::ReduceOp::sum);
    auto from = packed.begin();
    for (std::size_t i = first; i < end; from += std::ssize(parts[i]), ++i) {
      std::copy_n(from, parts[i].size(), parts[i].begin());
    }
  }
}

/// The sums of one variable's spectra.
struct SpectrumTally {
  int64_t images = 0;
  std::vector<base::ExactSum> power;
};

/// The statistics of one field, in two sweeps over its images.
class FieldStatistician {
 public:
  using Progress = std::function<void(int64_t)>;

  FieldStatistician(comm::Communicator& comm, const Dataset& dataset, std::size_t field,
                    const FieldStatisticsOptions& options)
      : comm_(comm),
        field_(dataset.info().fields[field]),
        options_(options),
        sweep_(dataset, field, {.most_images = options.most_images, .masks = true, .finite = false}),
        mine_(layout::even_part(sweep_.images(), comm.size(), comm.rank())),
        plane_(field_, options.transformed),
        first_(field_.variables.size()),
        spectra_(field_.variables.size()) {
    result_.field = field;
    result_.images = sweep_.images();
    if (field_.role == FieldRole::parameters) return;
    spectrum_.emplace(sweep_.format().sides());
    result_.modes = spectrum_->modes();
    for (SpectrumTally& tally : spectra_) tally.power.resize(spectrum_->rings());
  }

  FieldStatistics run(const Progress& done) {
    comm::agree(comm_, [&] {
      sweep_.visit(
          mine_, [this](auto values, auto valid) { look_first(values, valid); }, done);
    });
    gather_faults();
    sum_first();
    for (const FirstTally& tally : first_) second_.emplace_back(tally, empty_histogram(tally));
    comm::agree(comm_, [&] {
      sweep_.visit(
          mine_, [this](auto values, auto valid) { look_again(values, valid); }, done);
    });
    std::vector<std::span<int64_t>> parts;
    for (SecondTally& tally : second_) tally.append_parts(parts);
    sum_over_ranks(comm_, parts);
    comm::agree(comm_, [&] {
      for (std::size_t v = 0; v < first_.size(); ++v) result_.variables.push_back(statistics_of(v));
    });
    return std::move(result_);
  }

 private:
  void look_first(std::span<const std::byte> values, std::span<const std::byte> valid) {
    for (std::size_t v = 0; v < first_.size(); ++v) {
      plane_.take(values, valid, v);
      first_[v].masked += plane_.masked();
      first_[v].non_finite += plane_.non_finite();
      first_[v].add(plane_.kept());
      if (!spectrum_ || plane_.non_finite() > 0 || plane_.kept().empty()) continue;
      ++spectra_[v].images;
      const std::span<const double> power = spectrum_->power(plane_.centred(valid));
      for (std::size_t ring = 0; ring < power.size(); ++ring) spectra_[v].power[ring].add(power[ring]);
    }
  }

  void look_again(std::span<const std::byte> values, std::span<const std::byte> valid) {
    for (std::size_t v = 0; v < second_.size(); ++v) {
      plane_.take(values, valid, v);
      second_[v].add(plane_.kept());
    }
  }

  void sum_first() {
    std::vector<std::span<int64_t>> parts;
    std::vector<double> least;
    std::vector<double> most;
    for (std::size_t v = 0; v < first_.size(); ++v) {
      FirstTally& tally = first_[v];
      for (int64_t* count : {&tally.count, &tally.masked, &tally.non_finite, &spectra_[v].images}) {
        parts.emplace_back(count, 1);
      }
      parts.push_back(tally.sum.limbs());
      parts.emplace_back(tally.coarse);
      for (base::ExactSum& power : spectra_[v].power) parts.push_back(power.limbs());
      least.push_back(tally.min);
      most.push_back(tally.max);
    }
    sum_over_ranks(comm_, parts);
    comm::all_reduce(comm_, least, comm::ReduceOp::min);
    comm::all_reduce(comm_, most, comm::ReduceOp::max);
    for (std::size_t v = 0; v < first_.size(); ++v) {
      first_[v].min = least[v];
      first_[v].max = most[v];
    }
  }

  /// The faults of all ranks, in the order of ranks: that of the images.
  void gather_faults() {
    result_.unusable = comm::all_reduce(comm_, sweep_.unusable(), comm::ReduceOp::sum);
    const std::string mine =
        base::OrderedJson(sweep_.faults()).dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace);
    for (const std::string& part : comm::all_gather(comm_, mine)) {
      for (const base::Json& fault : base::Json::parse(part)) {
        if (result_.faults.size() < ImageSweep::kMostNamed) result_.faults.push_back(fault.get<std::string>());
      }
    }
  }

  [[nodiscard]] Histogram empty_histogram(const FirstTally& tally) const {
    constexpr std::size_t kByteValues = 256;
    if (field_.dtype == base::DType::u8 && !options_.transformed) {
      return {.low = 0.0, .high = double{kByteValues}, .counts = std::vector<int64_t>(kByteValues)};
    }
    if (tally.count == 0) return Histogram::between(0.0, 0.0, 1);
    return Histogram::between(tally.min, tally.max, static_cast<std::size_t>(options_.bins));
  }

  [[nodiscard]] VariableStatistics statistics_of(std::size_t v) const {
    const FirstTally& tally = first_[v];
    const SecondTally& second = second_[v];
    VariableStatistics result;
    result.count = tally.count;
    result.masked = tally.masked;
    result.non_finite = tally.non_finite;
    result.spectra = spectra_[v].images;
    if (tally.count == 0) return result;
    if (second.count() != tally.count) {
      throw base::DatasetError(
          "{}: variable \"{}\" had {} values when it was read first, and {} when it was read again", field_.path,
          field_.variables[v].name, tally.count, second.count());
    }
    result.min = tally.min;
    result.max = tally.max;
    const bool one_value = tally.min == tally.max;
    result.moments = one_value ? Moments{.mean = tally.min} : moments_of(tally.mean(), second.mean_powers());
    result.quantiles = second.quantiles();
    result.histogram = second.histogram();
    if (result.spectra == 0) return result;
    for (const base::ExactSum& power : spectra_[v].power) {
      result.power.push_back(power.value() / static_cast<double>(result.spectra));
    }
    return result;
  }

  comm::Communicator& comm_;
  const Field& field_;
  const FieldStatisticsOptions& options_;
  ImageSweep sweep_;
  layout::Range mine_;
  VariablePlane plane_;
  std::optional<RadialSpectrum> spectrum_;
  std::vector<FirstTally> first_;
  std::vector<SecondTally> second_;
  std::vector<SpectrumTally> spectra_;
  FieldStatistics result_;
};

}  // namespace

std::vector<FieldStatistics> field_statistics(comm::Communicator& comm, const Dataset& dataset,
                                              const FieldStatisticsOptions& options,
                                              const base::ProgressReport& progress) {
  std::vector<std::size_t> fields;
  int64_t all_images = 0;
  int64_t total = 0;  // images of this rank, in all fields and sweeps
  for (std::size_t f = 0; f < dataset.info().fields.size(); ++f) {
    if (dataset.info().fields[f].variables.empty()) continue;
    fields.push_back(f);
    const int64_t images = ImageSweep(dataset, f, {.most_images = options.most_images}).images();
    all_images = std::max(all_images, images);
    total += kSweeps * layout::even_part(images, comm.size(), comm.rank()).size();
  }
  int64_t done = 0;
  std::vector<FieldStatistics> all;
  all.reserve(fields.size());
  for (const std::size_t f : fields) {
    all.push_back(FieldStatistician(comm, dataset, f, options).run([&](int64_t count) {
      done += count;
      if (progress) progress(done * all_images / total, all_images);
    }));
  }
  return all;
}

}  // namespace ddpm::data
