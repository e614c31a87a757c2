#include "eval/sample_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "comm/collectives.h"
#include "data/value_map.h"
#include "h5/file.h"
#include "observe/npy.h"

namespace ddpm::eval {
namespace {

using base::DatasetError;

bool is_npy(const base::Path& path) { return path.extension() == ".npy"; }

/// The variables of an .npy, which says nothing of them.
std::vector<data::Variable> nameless(int64_t channels) {
  std::vector<data::Variable> variables;
  for (int64_t c = 0; c < channels; ++c) {
    variables.push_back({.name = fmt::format("channel {}", c), .unit = "", .transform = {}});
  }
  return variables;
}

/// The numbers of one array of all files, in their order; empty where a file has none of that name.
std::vector<int64_t> numbers_of(const std::vector<base::Path>& files, const std::string& name) {
  std::vector<int64_t> numbers;
  for (const base::Path& path : files) {
    const h5::File file = h5::File::open(path);
    if (!file.contains(name)) return {};
    const h5::Dataset array = file.dataset(name);
    if (array.shape().size() != 1) {
      throw DatasetError("{}: it has {} axes, wanted one number for each sample", array.label(), array.shape().size());
    }
    const auto before = numbers.size();
    numbers.resize(before + static_cast<std::size_t>(array.rows()));
    array.read_integers(0, array.rows(), std::span(numbers).subspan(before));
  }
  return numbers;
}

void broadcast(comm::Communicator& comm, std::vector<int64_t>& numbers) {
  int64_t size = comm::all_reduce(comm, std::ssize(numbers), comm::ReduceOp::max);
  numbers.resize(static_cast<std::size_t>(size));
  if (size == 0) return;
  comm.broadcast({.data = numbers.data(), .count = size, .dtype = base::DType::i64}, 0).wait();
}

/// Groups of equal neighbouring conditions, whose members count from 0.
Ensembles groups_of(const std::string& path, int64_t samples, const std::vector<int64_t>& condition,
                    const std::vector<int64_t>& member) {
  if (std::ssize(condition) != samples || std::ssize(member) != samples) {
    throw DatasetError("{}: /condition_index has {} numbers and /member {}, for {}", path, condition.size(),
                       member.size(), base::counted(samples, "sample"));
  }
  Ensembles result;
  const auto changes = std::ranges::adjacent_find(condition, std::not_equal_to<>());
  result.members = changes == condition.end() ? samples : changes - condition.begin() + 1;
  for (std::size_t i = 0; i < condition.size(); ++i) {
    const auto first = i - i % static_cast<std::size_t>(result.members);
    const auto wanted = static_cast<int64_t>(i - first);
    if (condition[i] != condition[first] || member[i] != wanted || condition[i] < 0) {
      throw DatasetError("{}: sample {} is member {} of condition {}, wanted member {} of condition {}: {} of each",
                         path, i, member[i], condition[i], wanted, condition[first],
                         base::counted(result.members, "member"));
    }
    if (wanted == 0) result.conditions.push_back(condition[i]);
  }
  if (samples % result.members != 0) {
    throw DatasetError("{}: condition {} has {}, the first one {}", path, condition.back(),
                       base::counted(samples % result.members, "member"), result.members);
  }
  std::vector<int64_t> sorted = result.conditions;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    throw DatasetError("{}: condition {} is there twice", path, *twice);
  }
  return result;
}

}  // namespace

struct SampleSet::State {
  base::Path path;
  std::optional<data::Dataset> set;
  std::unique_ptr<observe::NpyReader> array;
  int64_t count = 0;
  std::vector<int64_t> sides;
  std::vector<data::Variable> variables;
  Scale scale = Scale::stored;

  [[nodiscard]] std::size_t pixels() const {
    return static_cast<std::size_t>(std::reduce(sides.begin(), sides.end(), int64_t{1}, std::multiplies<>()));
  }
  void open_array();
  void read_array(int64_t first, std::span<float> out) const;
  void read_images(int64_t first, int64_t n, std::span<float> out) const;
  void expect_finite(int64_t first, std::span<const float> values) const;
};

void SampleSet::State::open_array() {
  try {
    array = std::make_unique<observe::NpyReader>(path);
  } catch (const base::ConfigError& error) {
    throw DatasetError("{}", error.what());
  }
  const std::vector<int64_t>& shape = array->shape();
  if ((shape.size() != 4 && shape.size() != 5) || std::ranges::min(shape) < 1) {
    throw DatasetError("{}: its shape is [{}], wanted samples [n, C, H, W] or [n, C, D, H, W]", path.string(),
                       fmt::join(shape, ", "));
  }
  count = shape[0];
  sides.assign(shape.begin() + 2, shape.end());
  variables = nameless(shape[1]);
  scale = Scale::model;
}

void SampleSet::State::expect_finite(int64_t first, std::span<const float> values) const {
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return;
  const auto place = static_cast<std::size_t>(bad - values.begin());
  const std::size_t channel = place / pixels() % variables.size();
  throw DatasetError("{}: sample {} holds {} in {} at place {} of its {} pixels", path.string(),
                     first + static_cast<int64_t>(place / (pixels() * variables.size())), *bad, variables[channel].name,
                     place % pixels(), pixels());
}

void SampleSet::State::read_array(int64_t first, std::span<float> out) const {
  try {
    array->read(first * static_cast<int64_t>(pixels() * variables.size()), out);
  } catch (const base::ConfigError& error) {
    throw DatasetError("{}", error.what());
  }
  expect_finite(first, out);
}

/// From channels last in the stored type.
void SampleSet::State::read_images(int64_t first, int64_t n, std::span<float> out) const {
  const data::ImageFormat format = set->image();
  std::vector<std::byte> bytes(static_cast<std::size_t>(n) * format.bytes());
  set->read_block(first, n, bytes);
  const std::size_t channels = variables.size();
  const std::size_t points = pixels();
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const std::byte* from = bytes.data() + i * format.bytes();
    float* to = out.data() + i * channels * points;
    for (std::size_t p = 0; p < points; ++p) {
      for (std::size_t c = 0; c < channels; ++c) {
        if (format.dtype == base::DType::u8) {
          to[c * points + p] = std::to_integer<uint8_t>(from[p * channels + c]);
        } else {
          std::memcpy(&to[c * points + p], from + (p * channels + c) * sizeof(float), sizeof(float));
        }
      }
    }
  }
}

SampleSet::SampleSet(std::unique_ptr<State> state) : state_(std::move(state)) {}
SampleSet::~SampleSet() = default;
SampleSet::SampleSet(SampleSet&&) noexcept = default;
SampleSet& SampleSet::operator=(SampleSet&&) noexcept = default;

SampleSet SampleSet::open(comm::Communicator& comm, const base::Path& path, const data::DatasetOptions& options) {
  auto state = std::make_unique<State>();
  state->path = path;
  if (is_npy(path)) {
    comm::agree(comm, [&] { state->open_array(); });
    return SampleSet(std::move(state));
  }
  state->set.emplace(data::Dataset::open(comm, path, options));
  const data::Field& field = state->set->info().image_field();
  state->count = state->set->size();
  state->sides = field.format().sides();
  state->variables = field.variables;
  return SampleSet(std::move(state));
}

const base::Path& SampleSet::path() const { return state_->path; }
int64_t SampleSet::size() const { return state_->count; }
int64_t SampleSet::channels() const { return std::ssize(state_->variables); }
const std::vector<int64_t>& SampleSet::sides() const { return state_->sides; }
int64_t SampleSet::pixels() const { return static_cast<int64_t>(state_->pixels()); }
const std::vector<data::Variable>& SampleSet::variables() const { return state_->variables; }
const data::Dataset* SampleSet::dataset() const { return state_->set ? &*state_->set : nullptr; }
Scale SampleSet::scale() const { return state_->scale; }

void SampleSet::as_stored_in(const std::vector<data::Variable>& variables, const std::vector<int64_t>& sides,
                             Units units, const std::string& data) {
  const State& mine = *state_;
  if (mine.variables.size() != variables.size() || mine.sides != sides) {
    throw DatasetError("{}: its samples have {} of {}, those of {} have {} of {}", mine.path.string(),
                       base::counted(std::ssize(mine.variables), "variable"), fmt::join(mine.sides, " x "), data,
                       base::counted(std::ssize(variables), "variable"), fmt::join(sides, " x "));
  }
  const bool records_the_same = mine.set && std::ranges::equal(mine.variables, variables, {},
                                                               &data::Variable::transform, &data::Variable::transform);
  const bool holds_stored = units == Units::automatic ? records_the_same : units == Units::stored;
  state_->scale = holds_stored ? Scale::stored : Scale::model;
  state_->variables = variables;
}

void SampleSet::read(int64_t first, int64_t n, Scale scale, std::span<float> out) const {
  const State& s = *state_;
  if (s.array) {
    s.read_array(first, out);
  } else {
    s.read_images(first, n, out);
  }
  if (scale == s.scale) return;
  const std::size_t points = s.pixels();
  for (std::size_t c = 0; c < s.variables.size(); ++c) {
    const data::ValueMap map(s.variables[c].transform);
    if (map.is_identity()) continue;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const std::span<float> plane = out.subspan((i * s.variables.size() + c) * points, points);
      for (std::size_t p = 0; p < points; ++p) {
        const double x = plane[p];
        plane[p] = static_cast<float>(scale == Scale::model ? map.seen(x, p) : map.stored(x, p));
      }
    }
  }
}

bool SampleSet::has_mask() const {
  return state_->set && state_->set->info().find(data::FieldRole::mask) < state_->set->info().fields.size();
}

bool SampleSet::has_shared_mask() const {
  return has_mask() && state_->set->info().find(data::FieldRole::mask) >= state_->set->fields().size();
}

void SampleSet::read_valid(int64_t first, int64_t n, std::span<uint8_t> out) const {
  if (!has_mask()) {
    std::ranges::fill(out, uint8_t{1});
    return;
  }
  const data::Dataset& set = *state_->set;
  const std::size_t mask = set.info().find(data::FieldRole::mask);
  const auto bytes = std::as_writable_bytes(out);
  if (mask < set.fields().size()) {
    set.read_unconfirmed(mask, first, n, bytes);
    set.expect_unchanged();
    return;
  }
  const std::span<const std::byte> shared = set.set_values(mask - set.fields().size());
  for (int64_t i = 0; i < n; ++i) {
    std::ranges::copy(shared, bytes.subspan(static_cast<std::size_t>(i) * shared.size()).begin());
  }
}

Ensembles SampleSet::ensembles(comm::Communicator& comm, std::optional<int64_t> members) const {
  const State& s = *state_;
  std::vector<int64_t> condition;
  std::vector<int64_t> member;
  if (members) {
    for (int64_t i = 0; i < s.count; ++i) {
      condition.push_back(i / *members);
      member.push_back(i % *members);
    }
  } else if (s.set) {
    comm::do_on_root(comm, [&] {
      condition = numbers_of(s.set->files(), "/condition_index");
      if (!condition.empty()) member = numbers_of(s.set->files(), "/member");
    });
    broadcast(comm, condition);
    broadcast(comm, member);
  }
  Ensembles result;
  comm::agree(comm, [&] {
    if (!condition.empty()) result = groups_of(s.path.string(), s.count, condition, member);
  });
  return result;
}

void SampleSet::close(comm::Communicator& comm) {
  if (state_->set) state_->set->close(comm);
}

}  // namespace ddpm::eval
