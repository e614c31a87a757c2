#include "eval/sample_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/named.h"
#include "base/product.h"
#include "comm/collectives.h"
#include "data/value_map.h"
#include "eval/picture_folder.h"
#include "observe/npy.h"

namespace ddpm::eval {
namespace {

using base::DatasetError;

bool is_npy(const base::Path& path) { return path.extension() == ".npy"; }

bool is_picture_folder(const base::Path& path) {
  return base::kind_of(path) == base::FileKind::folder && !base::is_there(path / data::kDescriptionFile);
}

/// The variables of an .npy, which says nothing of them.
std::vector<data::Variable> nameless(int64_t channels) {
  std::vector<data::Variable> variables;
  for (int64_t c = 0; c < channels; ++c) {
    variables.push_back({.name = fmt::format("channel {}", c), .unit = "", .transform = {}});
  }
  return variables;
}

/// Throws DatasetError where a variable has the name of another one of the data. Names that the data lack say nothing.
void expect_same_order(const std::vector<data::Variable>& own, const base::Path& path,
                       const std::vector<data::Variable>& wanted, const std::string& wanted_by) {
  for (std::size_t v = 0; v < own.size(); ++v) {
    const std::string& name = own[v].name;
    if (name == wanted[v].name || std::ranges::find(wanted, name, &data::Variable::name) == wanted.end()) continue;
    throw DatasetError("{}: its variable {} is {}, that of {} is {}; wanted: the same variables in the same order",
                       path.string(), v, name, wanted_by, wanted[v].name);
  }
}

}  // namespace

struct SampleSet::State {
  base::Path path;
  std::optional<data::Dataset> set;
  std::unique_ptr<observe::NpyReader> array;
  std::optional<PictureFolder> pictures;
  int64_t count = 0;
  std::vector<int64_t> sides;
  std::vector<data::Variable> variables;
  Scale scale = Scale::stored;

  [[nodiscard]] std::size_t pixels() const { return static_cast<std::size_t>(base::product_of(sides)); }
  /// How the images are stored: of a dataset, or of pictures.
  [[nodiscard]] data::ImageFormat stored() const {
    if (set) return set->image();
    return {.height = sides[0], .width = sides[1], .channels = std::ssize(variables), .dtype = base::DType::u8};
  }
  [[nodiscard]] bool holds_bytes() const { return !array && stored().dtype == base::DType::u8; }
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
  const data::ImageFormat format = stored();
  std::vector<std::byte> bytes(static_cast<std::size_t>(n) * format.bytes());
  if (pictures) {
    pictures->read(first, n, bytes);
  } else {
    set->read_block(first, n, bytes);
  }
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
  if (comm::ask_root(comm, [&] { return is_picture_folder(path); })) {
    state->pictures.emplace(PictureFolder::open(comm, path));
    state->count = state->pictures->size();
    state->sides = {state->pictures->height(), state->pictures->width()};
    state->variables.resize(3);
    state->variables =
        data::image_fields(state->stored(), data::Normalization::of(base::DType::u8), false).front().variables;
    return SampleSet(std::move(state));
  }
  data::DatasetOptions with_conditions = options;
  with_conditions.beside = condition_arrays();
  state->set.emplace(data::Dataset::open(comm, path, with_conditions));
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
bool SampleSet::holds_bytes() const { return state_->holds_bytes(); }

bool SampleSet::records_transforms() const {
  return state_->set && !std::ranges::all_of(state_->variables, [](const data::Variable& variable) {
           return data::ValueMap(variable.transform).is_identity();
         });
}

void SampleSet::as_stored_in(const std::vector<data::Variable>& variables, const std::vector<int64_t>& sides,
                             Units units, const std::string& data) {
  State& mine = *state_;
  if (mine.pictures && mine.sides == sides) {
    mine.pictures->set_channels(std::ssize(variables));
    mine.variables.resize(variables.size(), mine.variables.front());
  }
  if (mine.variables.size() != variables.size() || mine.sides != sides) {
    throw DatasetError("{}: its samples have {} of {}, those of {} have {} of {}", mine.path.string(),
                       base::counted(std::ssize(mine.variables), "variable"), fmt::join(mine.sides, " x "), data,
                       base::counted(std::ssize(variables), "variable"), fmt::join(sides, " x "));
  }
  if (mine.set) expect_same_order(mine.variables, mine.path, variables, data);
  if (mine.holds_bytes()) {
    if (units == Units::model) {
      throw DatasetError(
          "{}: --samples-hold model: its samples are stored in 8 bits, which are never in the model's range",
          mine.path.string());
    }
    for (std::size_t c = 0; c < variables.size(); ++c) {
      mine.variables[c].name = variables[c].name;
      mine.variables[c].unit = variables[c].unit;
    }
    return;
  }
  const bool holds_stored = units == Units::automatic ? records_transforms() : units == Units::stored;
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
  std::vector<uint8_t> valid;
  const auto is_valid = [&](std::size_t pixel) {
    if (valid.empty()) {
      valid.resize(static_cast<std::size_t>(n) * points);
      read_valid(first, n, valid);
    }
    return valid[pixel] != 0;
  };
  for (std::size_t c = 0; c < s.variables.size(); ++c) {
    const data::ValueMap map(s.variables[c].transform);
    if (map.is_identity()) continue;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const std::span<float> plane = out.subspan((i * s.variables.size() + c) * points, points);
      for (std::size_t p = 0; p < points; ++p) {
        const float given = plane[p];
        const double x = given;
        plane[p] = static_cast<float>(scale == Scale::model ? map.seen(x, p) : map.stored(x, p));
        if (std::isfinite(plane[p]) || !std::isfinite(given) || !is_valid(i * points + p)) continue;
        throw DatasetError(
            "{}: sample {} holds {} in {} at place {} of its {} pixels, which is not finite on the {} scale by {}",
            s.path.string(), first + static_cast<int64_t>(i), given, s.variables[c].name, p, points,
            base::name_of(scale), s.variables[c].transform.text());
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
  return find_ensembles(comm, s.path.string(), dataset(), s.count, members);
}

std::vector<int64_t> SampleSet::conditions(comm::Communicator& comm) const { return find_conditions(comm, dataset()); }

void SampleSet::close(comm::Communicator& comm) {
  if (state_->set) state_->set->close(comm);
}

std::string scale_note(const SampleSet& samples, const SampleSet& data, Units units) {
  const bool tells = samples.holds_bytes() || samples.records_transforms();
  if (units != Units::automatic || tells || !data.records_transforms()) return {};
  return fmt::format(
      "{} records no transforms, so its values are taken for the model's range, to which the transforms of {} lead: "
      "those must be the ones that the model was trained with. Values in the data's units want --samples-hold stored.",
      samples.path().string(), data.path().string());
}

}  // namespace ddpm::eval
