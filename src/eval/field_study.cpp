#include "eval/field_study.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "comm/collectives.h"
#include "eval/quantile_rows.h"

namespace ddpm::eval {
namespace {

/// Whether no condition of a block has been added.
bool is_empty(const ExchangeSums& at, std::span<const double> sums) {
  return std::ranges::all_of(at.histogram(sums, 0), [](double count) { return count == 0.0; });
}

}  // namespace

FieldStudy::FieldStudy(comm::Communicator& comm, const SampleSet& data, const std::vector<SampleSet>& a,
                       const std::vector<SampleSet>& b, const Ensembles& ensembles, int64_t block,
                       base::ProgressReport progress)
    : comm_(comm),
      data_(data),
      of_a_(a.size()),
      ensembles_(ensembles),
      block_(block),
      progress_(std::move(progress)),
      spectrum_(data.sides()),
      pixels_(static_cast<std::size_t>(data.pixels())),
      shared_valid_(pixels_, uint8_t{1}) {
  for (const SampleSet& set : a) sets_.push_back(&set);
  for (const SampleSet& set : b) sets_.push_back(&set);
  constexpr int64_t kPasses = 2;
  const auto mine = [&](int64_t units) { return layout::even_part(units, comm_.size(), comm_.rank()).size(); };
  total_ = kPasses * mine(data_units());
  for (const SampleSet* set : sets_) total_ += kPasses * mine(units_of(*set)) * ensembles_.members;
  lay_out();
}

int64_t FieldStudy::data_units() const { return paired() ? std::ssize(ensembles_.conditions) : data_.size(); }

int64_t FieldStudy::data_image(int64_t unit) const {
  return paired() ? ensembles_.conditions[static_cast<std::size_t>(unit)] : unit;
}

int64_t FieldStudy::units_of(const SampleSet& set) const { return paired() ? data_units() : set.size(); }

void FieldStudy::count(int64_t samples) {
  done_ = std::min(done_ + samples, total_);
  if (progress_) progress_(done_, total_);
}

/// The mask of a condition's image in the data; for other samples the one mask that all data share.
std::span<const uint8_t> FieldStudy::valid_of(SampleCursor& data, int64_t unit) {
  return paired() ? data.valid(data_image(unit)) : std::span<const uint8_t>(shared_valid_);
}

void FieldStudy::lay_out() {
  const std::size_t rings = spectrum_.rings();
  for (const data::Variable& variable : data_.variables()) {
    VariableSums sums{.name = variable.name,
                      .unit = variable.unit,
                      .samples = {.first = width_, .rings = rings},
                      .data = {},
                      .data_apart = !paired(),
                      .ensemble = {},
                      .exchange = {},
                      .modes = spectrum_.modes()};
    width_ += sums.samples.size();
    sums.data = sums.samples;
    if (paired()) {
      sums.data.first = width_;
      width_ += sums.data.size();
      sums.ensemble = EnsembleSums{.first = width_, .members = ensembles_.members};
      width_ += sums.ensemble->size();
      if (ensembles_.members > 1) {
        sums.exchange = ExchangeSums{.first = width_, .members = ensembles_.members};
        width_ += sums.exchange->size();
      }
    }
    variables_.push_back(std::move(sums));
  }
}

/// Medians of some pixels of images from all of the data.
void FieldStudy::find_centres() {
  constexpr int64_t kImages = 16;
  constexpr std::size_t kPixels = 4096;
  const std::size_t apart = pixels_ / kPixels | 1U;  // odd, so that a power of 2 is not always in the same column
  const int64_t images = std::min(kImages, data_units());
  std::vector<std::vector<float>> some(variables_.size());
  SampleCursor cursor(data_, Scale::stored);
  for (int64_t i = 0; i < images; ++i) {
    const int64_t image = data_image(i * data_units() / images);
    const std::span<const float> values = cursor.values(image);
    const std::span<const uint8_t> valid = cursor.valid(image);
    for (std::size_t p = 0; p < pixels_; p += apart) {
      for (std::size_t v = 0; valid[p] != 0 && v < some.size(); ++v) some[v].push_back(values[v * pixels_ + p]);
    }
  }
  for (std::vector<float>& of_variable : some) {
    const auto middle = of_variable.begin() + std::ssize(of_variable) / 2;
    std::ranges::nth_element(of_variable, middle);
    const double centre = of_variable.empty() ? 0.0 : static_cast<double>(*middle);
    of_data_.emplace_back(centre);
    for (auto& distributions : of_sets_) distributions.emplace_back(centre);
  }
}

void FieldStudy::survey_data() {
  SampleCursor cursor(data_, Scale::stored);
  const layout::Range mine = layout::even_part(data_units(), comm_.size(), comm_.rank());
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const std::span<const float> values = cursor.values(data_image(unit));
    const std::span<const uint8_t> valid = cursor.valid(data_image(unit));
    for (std::size_t v = 0; v < of_data_.size(); ++v) of_data_[v].add(values.subspan(v * pixels_, pixels_), valid);
    count(1);
  }
}

void FieldStudy::survey_set(const SampleSet& set, std::vector<Distribution>& distributions) {
  SampleCursor cursor(set, Scale::stored);
  SampleCursor data(data_, Scale::stored);
  const layout::Range mine = layout::even_part(units_of(set), comm_.size(), comm_.rank());
  for (int64_t unit = mine.begin; unit < mine.end; ++unit) {
    const std::span<const uint8_t> valid = valid_of(data, unit);
    const std::span<const float> values = cursor.values(unit * ensembles_.members, ensembles_.members);
    for (std::size_t plane = 0; plane < values.size() / pixels_; ++plane) {
      distributions[plane % distributions.size()].add(values.subspan(plane * pixels_, pixels_), valid);
    }
    count(ensembles_.members);
  }
}

void FieldStudy::survey() {
  of_sets_.resize(sets_.size());
  comm::agree(comm_, [&] {
    find_centres();
    if (!paired() && data_.has_shared_mask()) data_.read_valid(0, 1, shared_valid_);
    survey_data();
    for (std::size_t s = 0; s < sets_.size(); ++s) survey_set(*sets_[s], of_sets_[s]);
  });
  for (Distribution& one : of_data_) one.share(comm_);
  for (auto& distributions : of_sets_) {
    for (Distribution& one : distributions) one.share(comm_);
  }
  comm::agree(comm_, [&] {
    for (std::size_t v = 0; v < variables_.size(); ++v) {
      if (of_data_[v].count() > 0) continue;
      throw base::DatasetError("{}: its mask leaves no value of {}", data_.path().string(), variables_[v].name);
    }
  });
}

Marks FieldStudy::marks(std::size_t variable, const Distribution& own) const {
  Marks marks{.centre = of_data_[variable].quantile(0.5)};
  for (std::size_t s = 0; s < kShares.size(); ++s) {
    marks.data[s] = of_data_[variable].quantile(kShares[s]);
    marks.own[s] = own.quantile(kShares[s]);
  }
  return marks;
}

BlockSums FieldStudy::sums_of_data() {
  BlockSums sums(data_units(), width_, block_);
  SampleCursor cursor(data_, Scale::stored);
  comm::agree(comm_, [&] {
    sums.fill(comm_, [&](int64_t unit, std::span<double> block) {
      const std::span<const float> values = cursor.values(unit);
      const std::span<const uint8_t> valid = cursor.valid(unit);
      for (std::size_t v = 0; v < variables_.size(); ++v) {
        variables_[v].data.add(values.subspan(v * pixels_, pixels_), valid, marks_of_data_[v], spectrum_, block);
      }
      count(1);
    });
  });
  sums.share(comm_);
  return sums;
}

void FieldStudy::add_condition(std::size_t set, int64_t unit, std::span<const float> x, std::span<const float> y,
                               std::span<const uint8_t> valid, std::span<double> sums) {
  if (std::ranges::count(valid, uint8_t{0}) == std::ssize(valid)) return;
  const std::size_t stride = variables_.size() * pixels_;
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    const VariableSums& variable = variables_[v];
    const Marks& of_set = marks_[set][v];
    for (std::size_t m = 0; m < x.size() / stride; ++m) {
      variable.samples.add(x.subspan(m * stride + v * pixels_, pixels_), valid, of_set, spectrum_, sums);
    }
    if (!paired()) continue;
    const std::span<const float> truth = y.subspan(v * pixels_, pixels_);
    variable.data.add(truth, valid, marks_of_data_[v], spectrum_, sums);
    const EnsembleSums::Ties ties{.condition = static_cast<uint64_t>(data_image(unit)), .variable = v};
    variable.ensemble->add(x.subspan(v * pixels_), stride, truth, valid, of_set.centre, ties, sums);
    // Truths whose errors go together cannot be exchanged one by one: the first of each block is.
    if (variable.exchange && (block_ == 1 || is_empty(*variable.exchange, sums))) {
      variable.exchange->add(x.subspan(v * pixels_), stride, truth, valid, ties, sums);
    }
  }
}

BlockSums FieldStudy::sums_of_set(std::size_t place) {
  const SampleSet& set = *sets_[place];
  BlockSums sums(units_of(set), width_, paired() ? block_ : 1);
  SampleCursor cursor(set, Scale::stored);
  SampleCursor data(data_, Scale::stored);
  comm::agree(comm_, [&] {
    sums.fill(comm_, [&](int64_t unit, std::span<double> block) {
      const std::span<const uint8_t> valid = valid_of(data, unit);
      const std::span<const float> y = paired() ? data.values(data_image(unit)) : std::span<const float>{};
      add_condition(place, unit, cursor.values(unit * ensembles_.members, ensembles_.members), y, valid, block);
      count(ensembles_.members);
    });
  });
  sums.share(comm_);
  return sums;
}

void FieldStudy::run(Result& result) {
  survey();
  for (std::size_t v = 0; v < variables_.size(); ++v) marks_of_data_.push_back(marks(v, of_data_[v]));
  for (const auto& distributions : of_sets_) {
    marks_.emplace_back();
    for (std::size_t v = 0; v < variables_.size(); ++v) marks_.back().push_back(marks(v, distributions[v]));
  }
  Evidence evidence{.a = {}, .b = {}, .data = {}, .same_units = paired()};
  for (std::size_t s = 0; s < sets_.size(); ++s) (s < of_a_ ? evidence.a : evidence.b).push_back(sums_of_set(s));
  if (!paired()) evidence.data = sums_of_data();
  result.settings["blocks"] = evidence.a.front().blocks();
  comm::agree(comm_, [&] { report(result, evidence); });
  if (evidence.b.empty() || evidence.of_one_size()) return;
  result.notes.emplace_back(
      "The sets have different numbers of samples, so that they are not compared by spectrum_error and tail_error, "
      "which are larger for fewer samples.");
}

void FieldStudy::report(Result& result, const Evidence& evidence) const {
  for (std::size_t v = 0; v < variables_.size(); ++v) {
    const std::size_t first = result.metrics.size();
    estimate_into(result, evidence, field_rows(variables_[v]));
    if (variables_[v].exchange) {
      add_rank_test(result.metrics, first, exchange_p_value(evidence.a, *variables_[v].exchange));
    }
    QuantileSource source{.variable = &variables_[v], .data = &of_data_[v], .sets = {}};
    for (std::size_t s = 0; s < of_a_; ++s) source.sets.push_back(&of_sets_[s][v]);
    std::ranges::move(quantile_rows(source, evidence), std::back_inserter(result.metrics));
  }
}

}  // namespace ddpm::eval
