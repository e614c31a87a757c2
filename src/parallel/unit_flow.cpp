#include "parallel/unit_flow.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/counted.h"
#include "base/error.h"
#include "layout/pipeline.h"

namespace ddpm::parallel {
namespace {

constexpr std::size_t kWithoutSkips = 4;

/// What flows is told apart by the tensor that holds it, of which Observer::before keeps all alive.
using Identity = const c10::TensorImpl*;

Identity identity(const at::Tensor& value) { return value.defined() ? value.unsafeGetTensorImpl() : nullptr; }

/// Keeps the state before each stage, and sees how deep into the stack of skips its units reach.
class Observer final : public nn::UnitExecutor {
 public:
  explicit Observer(const std::vector<layout::Range>& stages) : before(stages.size()), stages_(stages) {}

  nn::UnitState run(const nn::Unit& unit, std::size_t index, nn::UnitState state,
                    const nn::ForwardContext& context) override {
    if (stage_ + 1 < stages_.size() && std::cmp_equal(index, stages_[stage_ + 1].begin)) ++stage_;
    if (std::cmp_equal(index, stages_[stage_].begin)) {
      before[stage_] = state;
      untouched.push_back(state.skips.size());
    }
    state = run_inner(unit, index, std::move(state), context);
    untouched.back() = std::min(untouched.back(), state.skips.size());
    return state;
  }

  std::vector<nn::UnitState> before;
  std::vector<std::size_t> untouched;  ///< for each stage: skips at the bottom of the stack that others take

 private:
  const std::vector<layout::Range>& stages_;
  std::size_t stage_ = 0;
};

/// What a stage gets: a tensor that stands in several places is one value. The first `untouched` skips are for others.
std::vector<StageValue> wanted(nn::UnitState& state, std::size_t untouched) {
  std::vector<StageValue> values;
  std::vector<Identity> known;
  for (std::size_t place = 0; place < value_count(state); ++place) {
    const at::Tensor& value = state_value(state, place);
    if (!value.defined()) continue;
    const auto found = std::ranges::find(known, identity(value));
    if (found != known.end()) {  // what is passed on from here lies where the next stage looks for it
      values[static_cast<std::size_t>(found - known.begin())].places.push_back(place);
      continue;
    }
    if (place >= kWithoutSkips && place < kWithoutSkips + untouched) continue;
    known.push_back(identity(value));
    values.push_back({.places = {place},
                      .sizes = value.sizes().vec(),
                      .dtype = value.scalar_type(),
                      .has_gradient = value.requires_grad()});
  }
  return values;
}

std::set<Identity> identities(nn::UnitState& state) {
  std::set<Identity> found;
  for (std::size_t place = 0; place < value_count(state); ++place) found.insert(identity(state_value(state, place)));
  return found;
}

std::size_t place_of(nn::UnitState& state, Identity value) {
  std::size_t place = 0;
  while (place < value_count(state) && identity(state_value(state, place)) != value) ++place;
  DDPM_CHECK(place < value_count(state), "a unit lost a value that a later one wants");
  return place;
}

}  // namespace

std::vector<layout::Range> stages_of(const nn::UNet2D& unet, int64_t stages, const std::vector<int64_t>& stage_units) {
  const auto units = std::ssize(unet.units());
  if (units < stages) {
    throw base::ConfigError("parallel.pipeline_size = {}: the model has {} units that make stages; wanted: at most {}",
                            stages, units, units);
  }
  if (!stage_units.empty()) {
    const int64_t sum = std::accumulate(stage_units.begin(), stage_units.end(), int64_t{0});
    if (std::ssize(stage_units) != stages || sum != units) {
      throw base::ConfigError(
          "parallel.stage_units = [{}]: {}, {} together; wanted: {}, one for each stage of parallel.pipeline_size, "
          "{} together",
          fmt::join(stage_units, ", "), base::counted(std::ssize(stage_units), "number"), base::counted(sum, "unit"),
          stages, units);
    }
    std::vector<layout::Range> ranges;
    for (int64_t begin = 0; const int64_t count : stage_units) {
      ranges.push_back({begin, begin + count});
      begin += count;
    }
    return ranges;
  }
  std::vector<double> costs;
  for (const nn::Operations& unit : unet.unit_operations(nn::image_size(unet.config()))) {
    costs.push_back(unit.all + unit.backward);
  }
  return layout::balanced_stages(costs, stages);
}

std::vector<layout::Range> cut_model(nn::UNet2D& unet, int64_t stages, const std::vector<int64_t>& stage_units,
                                     int64_t part, int64_t parts) {
  std::vector<layout::Range> ranges = stages_of(unet, stages, stage_units);
  if (parts > 1) unet.hold_channels(part, parts);
  return ranges;
}

std::size_t value_count(const nn::UnitState& state) { return kWithoutSkips + state.skips.size(); }

at::Tensor& state_value(nn::UnitState& state, std::size_t index) {
  switch (index) {
    case 0:
      return state.x;
    case 1:
      return state.temb;
    case 2:
      return state.embedding;
    case 3:
      return state.picture;
    default:
      return state.skips.at(index - kWithoutSkips);
  }
}

std::vector<StageFlow> stage_flows(const nn::UNet2D& unet, const std::vector<layout::Range>& stages,
                                   const ActivationBatch& batch) {
  Observer seen(stages);
  const at::Tensor answer = forward_on_meta(unet, batch, seen);
  std::vector<StageFlow> flows(stages.size());
  std::vector<std::set<Identity>> held(stages.size());  // what a stage gets or makes
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    nn::UnitState& before = seen.before[stage];
    const std::set<Identity> there = stage == 0 ? std::set<Identity>() : identities(before);
    if (stage > 0) {
      flows[stage].in = wanted(before, seen.untouched[stage]);
      flows[stage].skips = before.skips.size();
    }
    for (StageValue& value : flows[stage].in) {
      const Identity id = identity(state_value(before, value.places.front()));
      held[stage].insert(id);
      std::size_t from = stage;
      do {
        DDPM_CHECK(from > 0, "nobody makes value {} of stage {}", value.places.front(), stage);
        --from;
      } while (!held[from].contains(id));
      value.stage = static_cast<int64_t>(from);
      StageValue given = value;
      given.stage = static_cast<int64_t>(stage);
      given.places = {place_of(seen.before[from + 1], id)};
      flows[from].out.push_back(std::move(given));
    }
    if (stage + 1 == stages.size()) break;
    for (const Identity id : identities(seen.before[stage + 1])) {
      if (!there.contains(id)) held[stage].insert(id);
    }
  }
  return flows;
}

}  // namespace ddpm::parallel
