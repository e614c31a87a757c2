#include "eval/field_evaluation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "comm/collectives.h"
#include "data/value_map.h"
#include "eval/theory.h"

namespace ddpm::eval {
namespace {

using base::DatasetError;

/// Everything that is open, which has to be closed together.
struct Sets {
  std::optional<SampleSet> data;
  std::vector<SampleSet> a;
  std::vector<SampleSet> b;

  [[nodiscard]] std::vector<SampleSet*> samples() {
    std::vector<SampleSet*> all;
    for (SampleSet& set : a) all.push_back(&set);
    for (SampleSet& set : b) all.push_back(&set);
    return all;
  }
  void close(comm::Communicator& comm) {
    for (SampleSet* set : samples()) set->close(comm);
    if (data) data->close(comm);
  }
};

Sets open_sets(comm::Communicator& comm, const FieldRequest& request) {
  Sets sets;
  if (!request.data.empty()) sets.data.emplace(SampleSet::open(comm, request.data, request.reading));
  for (const base::Path& path : request.samples) sets.a.push_back(SampleSet::open(comm, path));
  for (const base::Path& path : request.others) sets.b.push_back(SampleSet::open(comm, path));
  return sets;
}

/// Throws DatasetError unless a set has the conditions of the first one.
void expect_conditions(const SampleSet& set, const Ensembles& seen, const SampleSet& first, const Ensembles& wanted) {
  if (seen.members == wanted.members && seen.conditions == wanted.conditions) return;
  throw DatasetError(
      "{}: it has {} with {} each, {} has {} with {}; wanted the same conditions in all sets, or --unpaired",
      set.path().string(), base::counted(std::ssize(seen.conditions), "condition"),
      base::counted(seen.members, "member"), first.path().string(),
      base::counted(std::ssize(wanted.conditions), "condition"), wanted.members);
}

/// The conditions of all sets, which have to be the same where the data have an image of each.
Ensembles common_ensembles(comm::Communicator& comm, Sets& sets, const FieldRequest& request) {
  const std::vector<SampleSet*> all = sets.samples();
  const SampleSet& first = *all.front();
  Ensembles common = first.ensembles(comm, request.members);
  for (const SampleSet* set : all) {
    const Ensembles seen = set == &first ? common : set->ensembles(comm, request.members);
    comm::agree(comm, [&] { expect_conditions(*set, seen, first, common); });
  }
  return common;
}

/// The conditions of each set; none where it is a draw like any other.
std::vector<Ensembles> ensembles_of(comm::Communicator& comm, Sets& sets, const FieldRequest& request) {
  const std::vector<SampleSet*> all = sets.samples();
  if (request.unpaired) return std::vector<Ensembles>(all.size());
  if (sets.data) return std::vector<Ensembles>(all.size(), common_ensembles(comm, sets, request));
  std::vector<Ensembles> each;
  each.reserve(all.size());
  for (const SampleSet* set : all) each.push_back(set->ensembles(comm, request.members));
  return each;
}

/// Conditions are numbered as times are. Throws DatasetError where pairs of these (--lead) are numbered otherwise.
void expect_one_series(const SampleSet& data, int64_t times, const SampleSet& samples, const Ensembles& ensembles,
                       int64_t lead) {
  if (times == data.size() + lead) return;
  throw DatasetError(
      "{}: its samples are of condition {} at most, as {} of {} are numbered, of which {} begin a pair with --lead {}: "
      "times are missing or of several series, and numbers of times are not those of pairs; wanted: one series without "
      "a gap, or for both --condition and --data the pairs that ddpm data create --lead has made",
      samples.path().string(), std::ranges::max(ensembles.conditions), base::counted(times, "time"),
      data.path().string(), data.size(), lead);
}

/// Pairs of times (--lead) have no image for the last times, of which a forecast has samples all the same. Removes
/// these conditions from the end of `ensembles`, and returns how many they were. Throws DatasetError's code where the
/// numbers of conditions do not tell pairs. Collective.
int64_t leave_out_last_times(comm::Communicator& comm, const SampleSet& data, const FieldRequest& request,
                             const SampleSet& samples, Ensembles& ensembles) {
  const int64_t lead = request.reading.lead;
  std::vector<int64_t>& conditions = ensembles.conditions;
  if (lead == 0 || conditions.empty()) return 0;
  data::DatasetOptions every_time = request.reading;
  every_time.lead = 0;
  SampleSet times = SampleSet::open(comm, request.data, every_time);
  const int64_t count = times.size();
  times.close(comm);
  comm::agree(comm, [&] { expect_one_series(data, count, samples, ensembles, lead); });
  const auto first = std::ranges::find_if(conditions, [&](int64_t condition) { return condition >= data.size(); });
  const bool at_the_end = std::all_of(first, conditions.end(),
                                      [&](int64_t condition) { return condition >= data.size() && condition < count; });
  if (!at_the_end || first == conditions.begin()) return 0;
  const int64_t left_out = conditions.end() - first;
  conditions.erase(first, conditions.end());
  return left_out;
}

void expect_images(const SampleSet& data, const SampleSet& samples, const Ensembles& ensembles) {
  if (ensembles.conditions.empty() || std::ranges::max(ensembles.conditions) < data.size()) return;
  throw DatasetError("{}: its samples are of condition {}, {} has images 0 to {}", samples.path().string(),
                     std::ranges::max(ensembles.conditions), data.path().string(), data.size() - 1);
}

/// What has errors of its own: conditions with all their members, or samples.
int64_t units_of(const SampleSet& set, const Ensembles& ensembles) {
  return ensembles.conditions.empty() ? set.size() : std::ssize(ensembles.conditions);
}

BlockSums measured(comm::Communicator& comm, const SampleSet& set, const Ensembles& ensembles, int64_t block,
                   Theory& theory, const std::function<void(int64_t)>& count) {
  BlockSums sums(units_of(set, ensembles), theory.width(), block);
  SampleCursor cursor(set, theory.scale());
  comm::agree(comm, [&] {
    sums.fill(comm, [&](int64_t unit, std::span<double> of_block) {
      const std::span<const float> members = cursor.values(unit * ensembles.members, ensembles.members);
      const std::size_t size = members.size() / static_cast<std::size_t>(ensembles.members);
      for (std::size_t m = 0; m < members.size(); m += size) theory.measure(members.subspan(m, size), of_block);
      count(ensembles.members);
    });
  });
  sums.share(comm);
  return sums;
}

/// Whether unit u is the same condition in all sets.
bool are_alike(const std::vector<Ensembles>& ensembles) {
  return std::ranges::all_of(ensembles, [&](const Ensembles& one) {
    return !one.conditions.empty() && one.conditions == ensembles.front().conditions;
  });
}

void study_theory(comm::Communicator& comm, Sets& sets, const std::vector<Ensembles>& ensembles, int64_t block,
                  Theory& theory, const base::ProgressReport& progress, Result& result) {
  Evidence evidence{.a = {}, .b = {}, .data = {}, .same_units = are_alike(ensembles)};
  const std::vector<SampleSet*> all = sets.samples();
  int64_t done = 0;
  int64_t total = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int64_t units = units_of(*all[i], ensembles[i]);
    total += layout::even_part(units, comm.size(), comm.rank()).size() * ensembles[i].members;
  }
  const auto count = [&](int64_t samples) {
    done = std::min(done + samples, total);
    if (progress) progress(done, total);
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    // Blocks are those of the data where the samples are a draw like any other.
    const int64_t together = sets.data && ensembles[i].conditions.empty() ? 1 : block;
    auto& of_model = i < sets.a.size() ? evidence.a : evidence.b;
    of_model.push_back(measured(comm, *all[i], ensembles[i], together, theory, count));
  }
  const int64_t members = std::ranges::max_element(ensembles, {}, &Ensembles::members)->members;
  std::vector<Row> rows = theory.rows();
  // The members of a condition may be as good as independent of each other, but are not better than that.
  for (Row& row : rows) row.unit_deviation /= std::sqrt(static_cast<double>(members));
  comm::agree(comm, [&] { estimate_into(result, evidence, rows); });
}

/// Has all samples take the names and transforms of the data or, without data, of the theory.
void settle_scales(Sets& sets, const FieldRequest& request, const Theory* theory) {
  for (SampleSet* set : sets.samples()) {
    if (sets.data) {
      set->as_stored_in(sets.data->variables(), sets.data->sides(), request.units, request.data.string());
    } else {
      set->as_stored_in(theory->variables(), sets.a.front().sides(), request.units, request.exact);
    }
  }
  if (theory == nullptr || !sets.data) return;
  const auto wanted = std::ssize(theory->variables());
  if (wanted == sets.data->channels()) return;
  throw DatasetError("{}: it has {}, {} has {}", request.data.string(),
                     base::counted(sets.data->channels(), "variable"), request.exact, wanted);
}

/// `set`: the data, or samples without data.
void expect_blocks(const SampleSet& set, int64_t block, const Ensembles& ensembles) {
  const int64_t units = units_of(set, ensembles);
  if (block == 1 || units >= 2 * block) return;
  throw base::ConfigError("--block {}: {} of {} make no two blocks; wanted: {} at most", block,
                          base::counted(units, "image"), set.path().string(), std::max<int64_t>(1, units / 2));
}

/// A sentence on the scale of samples that do not tell theirs, where it matters: before settle_scales().
std::string scale_note_of(Sets& sets, const FieldRequest& request) {
  for (const SampleSet* set : sets.samples()) {
    if (sets.data) {
      if (std::string note = scale_note(*set, *sets.data, request.units); !note.empty()) return note;
    } else if (request.units == Units::automatic && !set->holds_bytes() && !set->records_transforms()) {
      return fmt::format(
          "{} does not say which transforms its values have gone through: they are taken for what a model sees of a "
          "set by ddpm data generate. A model of standardised data wants --data here, or ddpm sample --denormalize.",
          set->path().string());
    }
  }
  return {};
}

void describe(Result& result, Sets& sets, const Ensembles& ensembles) {
  const bool grouped = !ensembles.conditions.empty();
  result.count = grouped ? std::ssize(ensembles.conditions) * ensembles.members : sets.a.front().size();
  result.settings["paired"] = grouped && sets.data;
  if (grouped) {
    result.settings["conditions"] = ensembles.conditions.size();
    result.settings["members"] = ensembles.members;
  }
  result.settings["samples_hold"] = base::name_of(sets.a.front().scale());
  if (grouped) {
    result.notes.push_back(fmt::format("{} with {} each; intervals are over conditions.",
                                       base::counted(std::ssize(ensembles.conditions), "condition"),
                                       base::counted(ensembles.members, "member")));
  }
  if (!sets.data || grouped) return;
  result.notes.emplace_back("Samples and data are two draws; no sample belongs to an image of the data.");
  if (sets.data->has_mask() && !sets.data->has_shared_mask()) {
    result.notes.emplace_back("Each image of the data has a mask of its own, which says nothing of samples.");
  }
}

}  // namespace

Result evaluate_fields(comm::Communicator& comm, const FieldRequest& request, const base::ProgressReport& progress) {
  std::optional<TheoryName> name;
  comm::agree(comm, [&] {
    if (!request.exact.empty()) name = parse_theory(request.exact);
    if (name || !request.data.empty()) return;
    throw base::ConfigError("nothing to hold the samples against: wanted --data, --exact or both");
  });
  Result result{.kind = ResultKind::fields, .data = request.data, .samples = request.samples, .others = request.others};
  if (name) result.settings["exact"] = name->text;
  Sets sets = open_sets(comm, request);
  std::unique_ptr<Theory> theory;
  std::string of_scale;
  comm::agree(comm, [&] {
    of_scale = scale_note_of(sets, request);
    if (name) theory = make_theory(*name, {.sides = sets.a.front().sides(), .channels = sets.a.front().channels()});
    settle_scales(sets, request, theory.get());
  });
  std::vector<Ensembles> of_sets = ensembles_of(comm, sets, request);
  Ensembles& ensembles = of_sets.front();
  int64_t left_out = 0;
  if (sets.data) {
    left_out = leave_out_last_times(comm, *sets.data, request, sets.a.front(), ensembles);
    of_sets.assign(of_sets.size(), Ensembles(ensembles));
  }
  comm::agree(comm, [&] {
    if (sets.data) expect_images(*sets.data, sets.a.front(), ensembles);
    expect_blocks(sets.data ? *sets.data : sets.a.front(), request.block, ensembles);
    describe(result, sets, ensembles);
  });
  if (request.reading.lead > 0 && request.block == 1) {
    result.notes.emplace_back(
        "Successive times are taken for independent of each other. Where errors last for N of them, intervals are too "
        "narrow by about the root of N: --block N.");
  }
  if (left_out > 0) {
    const bool one = left_out == 1;
    result.notes.push_back(fmt::format("The last {} left out: with --lead {} no image of the data follows {}.",
                                       one ? "condition is" : base::counted(left_out, "condition") + " are",
                                       request.reading.lead, one ? "it" : "them"));
  }
  if (!of_scale.empty()) result.notes.push_back(of_scale);
  if (theory) study_theory(comm, sets, of_sets, request.block, *theory, progress, result);
  if (sets.data) FieldStudy(comm, *sets.data, sets.a, sets.b, ensembles, request.block, progress).run(result);
  decide(result.comparisons);
  sets.close(comm);
  return result;
}

void expect_within(const Result& result, double sigmas) {
  const Metric* worst = nullptr;
  const Metric* unknown = nullptr;
  int64_t beyond = 0;
  for (const Metric& metric : result.metrics) {
    if (!metric.is_exact) continue;
    if (std::isnan(metric.estimate.standard_error)) unknown = &metric;
    const double off = std::abs(metric.sigmas.value_or(0.0));
    if (off <= sigmas) continue;
    ++beyond;
    if (worst == nullptr || off > std::abs(worst->sigmas.value_or(0.0))) worst = &metric;
  }
  if (worst == nullptr && unknown != nullptr) {
    const std::string noun = result.settings.contains("conditions") ? "condition" : "sample";
    throw DatasetError("--gate: {} has no error with {}; wanted: 2 {} or more, which are not all alike", unknown->name,
                       base::counted(unknown->estimate.units, noun), base::plural(/*one=*/false, noun));
  }
  if (worst == nullptr) return;
  const std::string level = worst->level_text();
  throw base::NumericsError(
      "--gate {}: {} of the values are further off; the furthest, {}{}{}, is {:.6g} +- {:.2g}, "
      "{:+.1f} standard errors from the exact {:.6g}",
      sigmas, beyond, worst->name, level.empty() ? "" : " of ", level, worst->estimate.value,
      worst->estimate.standard_error, worst->sigmas.value_or(0.0), worst->reference.value_or(0.0));
}

}  // namespace ddpm::eval
