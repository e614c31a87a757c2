#include "data/foreign_set.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "base/shortened.h"
#include "data/foreign_rows.h"
#include "data/foreign_variable.h"
#include "data/plain_text.h"
#include "data/variable_request.h"

namespace ddpm::data {
namespace {

using base::DatasetError;
using base::DType;
using Kind = AxisUse::Kind;

constexpr int64_t kMostImages = int64_t{1} << 40;
constexpr std::size_t kSides = 2;  // sides that an image has where the options name no axes

std::vector<std::string> names_of(const std::vector<ForeignAxis>& axes) {
  std::vector<std::string> names;
  std::ranges::transform(axes, std::back_inserter(names), &ForeignAxis::name);
  return names;
}

std::optional<std::size_t> place_in(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

/// The extents of axes that several variables share; 0: not known yet.
class Extents {
 public:
  explicit Extents(std::vector<std::string> names) : names_(std::move(names)), extents_(names_.size(), 0) {}

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<int64_t>& all() const { return extents_; }
  void add(std::size_t axis, int64_t extent, const std::string& label) {
    if (extents_[axis] == 0) extents_[axis] = extent;
    if (extents_[axis] == extent) return;
    throw DatasetError("{}: {} places along {}, another variable has {}", label, extent, names_[axis], extents_[axis]);
  }
  void expect_known(const std::string& label) const {
    for (std::size_t axis = 0; axis < names_.size(); ++axis) {
      if (extents_[axis] == 0) throw DatasetError("{}: no variable has the axis {}", label, names_[axis]);
    }
  }

 private:
  std::vector<std::string> names_;
  std::vector<int64_t> extents_;
};

/// What a role is composed of.
struct Composed {
  std::vector<ForeignPart> parts;
  std::vector<Variable> variables;
  Extents sides;
  std::string label;
  std::string text;  ///< all that the values depend on beside the file
};

/// The names of the channels that an axis makes of each channel so far.
std::vector<std::string> split_names(const std::vector<std::string>& names, const ForeignFile& file,
                                     const ForeignAxis& axis, bool first_component) {
  std::vector<std::string> split;
  const std::vector<double> places = file.coordinates(axis);
  const bool letters = axis.name == kComponent && axis.extent == std::ssize(file.space);
  for (const std::string& name : names) {
    for (int64_t i = 0; i < axis.extent; ++i) {
      const auto at = static_cast<std::size_t>(i);
      split.push_back(
          letters ? fmt::format("{}{}{}", name, first_component ? "_" : "", file.space[at])
                  : fmt::format("{} {}={}", name, axis.name, places.empty() ? static_cast<double>(i) : places[at]));
    }
  }
  return split;
}

class Composer {
 public:
  Composer(const h5::File& file, const DatasetOptions& options)
      : file_(ForeignFile::of(file)), options_(options), samples_({}) {}

  BareFile bare_file();

 private:
  void settle_axes(const ForeignVariable& first);
  [[nodiscard]] Extents sides_of(FieldRole role, const ForeignVariable& first) const;
  [[nodiscard]] AxisUse use_of(FieldRole role, const std::string& label, const ForeignAxis& axis, Extents& sides);
  void add_part(FieldRole role, const VariableRequest& request, ForeignVariable variable, Composed& to);
  Composed compose(FieldRole role, const std::vector<VariableRequest>& requests);
  void add_field(FieldRole role, const std::vector<VariableRequest>& requests, int64_t lead, BareFile& bare);
  void add_labels(BareFile& bare);
  [[nodiscard]] bool has_all(const std::vector<VariableRequest>& requests) const;
  [[nodiscard]] bool changes_with_samples(const VariableRequest& request) const;
  void add_mask(BareFile& bare);
  void add_missing_mask(BareFile& bare) const;
  void note_coordinates(const ForeignVariable& variable);
  [[nodiscard]] const std::vector<int64_t>& places_along(const std::string& label) const;

  ForeignFile file_;
  const DatasetOptions& options_;
  std::vector<std::string> sides_;
  Extents samples_;
  std::map<std::string, std::vector<double>> coordinates_;  // coordinates along each side of the images
  BareFile::Times times_;
};

/// Which axes are those of the images, and along which images follow each other.
void Composer::settle_axes(const ForeignVariable& first) {
  const std::vector<std::string> names = names_of(first.axes);
  sides_ = options_.axes.empty() && file_.is_well() ? file_.space : options_.axes;
  if (sides_.empty() && names.size() > kSides) sides_.assign(names.end() - kSides, names.end());
  std::vector<std::string> samples = options_.sample_axes;
  for (const char* name : {kTrajectory, kTime}) {
    if (options_.sample_axes.empty() && file_.is_well() && place_in(names, name)) samples.emplace_back(name);
  }
  if (samples.empty() && !file_.is_well()) samples.push_back(names.front());
  const bool shared =
      std::ranges::any_of(samples, [&](const auto& name) { return place_in(sides_, name).has_value(); });
  if (sides_.size() < kSides || sides_.size() > kSides + 1 || samples.empty() || shared) {
    throw DatasetError(
        "{}: its axes are [{}]; wanted: {}, the names of the image's height and width (of volumes also of the depth, "
        "which comes first), and {}, along which images follow each other",
        first.array.label(), fmt::join(names, ", "), options_.key("axes"), options_.key("sample_axes"));
  }
  samples_ = Extents(std::move(samples));
}

Extents Composer::sides_of(FieldRole role, const ForeignVariable& first) const {
  if (role == FieldRole::parameters || role == FieldRole::labels) return Extents({});
  const std::vector<std::string> names = names_of(first.axes);
  const bool lacks = std::ranges::any_of(sides_, [&](const std::string& side) { return !place_in(names, side); });
  // A coarser condition has other axes.
  if (!lacks || !options_.axes.empty() || file_.is_well() || names.size() < sides_.size()) return Extents(sides_);
  return Extents({names.end() - static_cast<std::ptrdiff_t>(sides_.size()), names.end()});
}

AxisUse Composer::use_of(FieldRole role, const std::string& label, const ForeignAxis& axis, Extents& sides) {
  if (const auto side = place_in(sides.names(), axis.name)) {
    sides.add(*side, axis.extent, label);
    return {.kind = Kind::side, .number = static_cast<int64_t>(*side)};
  }
  const auto sample = place_in(samples_.names(), axis.name);
  if (!sample) return {.kind = Kind::channel};
  if (role != FieldRole::static_values) {
    samples_.add(*sample, axis.extent, label);
    return {.kind = Kind::sample, .number = static_cast<int64_t>(*sample)};
  }
  if (axis.extent == 1) return {.kind = Kind::chosen, .number = 0};
  throw DatasetError(
      "{}: {} places along {}, but static values are the same for all images; choose one: \"NAME {}=...\"", label,
      axis.extent, axis.name, axis.name);
}

void Composer::add_part(FieldRole role, const VariableRequest& request, ForeignVariable variable, Composed& to) {
  const std::string label = variable.array.label();
  const std::vector<std::string> names = names_of(variable.axes);
  for (const std::string& side : to.sides.names()) {
    if (place_in(names, side) || file_.is_well()) continue;
    throw DatasetError("{}: there is no axis {} among its [{}]; {} names those of the images", label, side,
                       fmt::join(names, ", "), options_.key("axes"));
  }
  ForeignPart part{.array = std::move(variable.array),
                   .decoding = std::move(variable.decoding),
                   .uses = {},
                   .rows = variable.axes.front().extent};
  std::vector<std::string> channels = {request.choices.empty() ? request.name : request.text};
  bool is_split = false;
  std::size_t choices = 0;
  for (const ForeignAxis& axis : variable.axes) {
    const auto choice = std::ranges::find(request.choices, axis.name, &VariableRequest::Choice::axis);
    if (choice != request.choices.end()) {
      part.uses.push_back({.kind = Kind::chosen, .number = file_.place(axis, *choice, label)});
      ++choices;
      continue;
    }
    part.uses.push_back(use_of(role, label, axis, to.sides));
    if (part.uses.back().kind != Kind::channel || axis.extent == 1) continue;
    if (axis.extent > kMaxChannels / std::ssize(channels)) {
      throw DatasetError(
          "{}: more than {} channels, of the axis {} among [{}]; {} names those of the images, {} those along which "
          "images follow each other",
          label, kMaxChannels, axis.name, fmt::join(names, ", "), options_.key("axes"), options_.key("sample_axes"));
    }
    channels = split_names(channels, file_, axis, !is_split);
    is_split = true;
  }
  if (choices != request.choices.size()) {
    throw DatasetError("{}: \"{}\" chooses along an axis that is not among its [{}]", label, request.text,
                       fmt::join(names, ", "));
  }
  part.channels = std::ssize(channels);
  for (std::string& name : channels) {
    if (!is_plain(name)) {
      throw DatasetError("{}: as a variable it is called \"{}\"; 1 to {} printable bytes of UTF-8 are wanted", label,
                         base::shortened(name, base::kLongestShownName), kMaxNameBytes);
    }
    to.variables.push_back({.name = std::move(name), .unit = variable.unit, .transform = {}});
  }
  to.text += fmt::format(" {} {}", request.text, part.decoding.text());
  for (const AxisUse& use : part.uses) to.text += fmt::format(" {}:{}", static_cast<int>(use.kind), use.number);
  to.parts.push_back(std::move(part));
}

Composed Composer::compose(FieldRole role, const std::vector<VariableRequest>& requests) {
  std::vector<ForeignVariable> variables;
  std::vector<std::string> names;
  for (const VariableRequest& request : requests) {
    variables.push_back(file_.open(request.name));
    names.push_back(request.text);
  }
  if (role == FieldRole::image) settle_axes(variables.front());
  Composed composed{.parts = {},
                    .variables = {},
                    .sides = sides_of(role, variables.front()),
                    .label = fmt::format("{}:{}", file_.file.path().string(), fmt::join(names, ",")),
                    .text = std::string(base::name_of(role))};
  for (std::size_t v = 0; v < variables.size(); ++v) {
    if (role == FieldRole::image) note_coordinates(variables[v]);
    add_part(role, requests[v], std::move(variables[v]), composed);
  }
  composed.sides.expect_known(composed.label);
  if (role == FieldRole::image) samples_.expect_known(composed.label);
  return composed;
}

void Composer::note_coordinates(const ForeignVariable& variable) {
  for (const ForeignAxis& axis : variable.axes) {
    if (axis.name == samples_.names().back() && times_.places.empty()) {
      times_ = {.places = file_.coordinates(axis), .unit = file_.unit_of(axis)};
    }
    if (!place_in(sides_, axis.name) || coordinates_.contains(axis.name)) continue;
    std::vector<double> places = file_.coordinates(axis);
    if (!places.empty()) coordinates_.emplace(axis.name, std::move(places));
  }
}

/// Places along each sample axis. Pairs of times are fewer than times; along one axis alone, other files may go on.
const std::vector<int64_t>& Composer::places_along(const std::string& label) const {
  const std::vector<int64_t>& places = samples_.all();
  int64_t images = 1;
  for (const int64_t extent : places) {
    if (__builtin_mul_overflow(images, extent, &images) || images > kMostImages) {
      throw DatasetError("{}: more than {} images along [{}]", label, kMostImages, fmt::join(samples_.names(), ", "));
    }
  }
  if (places.size() == 1 || places.back() > options_.lead) return places;
  throw DatasetError("{}: {} places along {}; pairs that are {} apart need more", label, places.back(),
                     samples_.names().back(), key_text(options_.said_by, "lead", options_.lead));
}

void Composer::add_field(FieldRole role, const std::vector<VariableRequest>& requests, int64_t lead, BareFile& bare) {
  if (requests.empty()) return;
  Composed composed = compose(role, requests);
  const bool per_set = role == FieldRole::static_values;
  ForeignRows::Form form{
      .label = composed.label,
      .samples = per_set ? std::vector<int64_t>() : places_along(composed.label),
      .pairs = per_set ? 0 : options_.lead,
      .lead = lead,
      .sides = composed.sides.all(),
      .dtype = number_type(role),
      .advice = role == FieldRole::image && options_.missing == Missing::refuse
                    ? fmt::format(", or {}, which leaves out what is missing",
                                  key_text(options_.said_by, "missing", base::name_of(Missing::mask)))
                    : ""};
  auto rows = std::make_unique<ForeignRows>(std::move(composed.parts), std::move(form));
  if (!has_variables(role) && composed.variables.size() != 1) {
    throw DatasetError("{}: {} values for each {}; one is wanted", composed.label, composed.variables.size(),
                       role == FieldRole::mask ? "pixel of a mask" : "label");
  }
  if (std::ssize(composed.variables) > kMaxChannels) {
    throw DatasetError("{}: {} channels, at most {} are wanted", composed.label, composed.variables.size(),
                       kMaxChannels);
  }
  for (std::size_t v = 0; v < composed.variables.size(); ++v) {
    const std::string& of_channel = composed.variables[v].name;
    if (std::ranges::count(composed.variables, of_channel, &Variable::name) == 1) continue;
    throw DatasetError("{}: two channels are \"{}\"; wanted: each variable and place once", composed.label, of_channel);
  }
  Field field = make_field(role, array_path(role), rows->shape(), rows->dtype(), per_set);
  if (has_variables(role)) field.variables = std::move(composed.variables);
  bare.info.fields.push_back(std::move(field));
  expect_usable(bare.info.fields.back(), composed.label);
  expect_fitting(bare.info.fields, composed.label);
  bare.description += composed.text + "\n";
  if (!per_set) bare.foreign.push_back(rows.get());
  bare.rows.push_back(std::move(rows));
}

/// The class of each image.
void Composer::add_labels(BareFile& bare) {
  if (!options_.names_label_variable()) return;
  const VariableRequest request = parse_request(options_.labels, options_.key("labels"));
  const ForeignVariable variable = file_.open(request.name);
  if (!h5::is_integer(variable.array.element()) || variable.decoding.is_packed()) {
    throw DatasetError("{}: labels are integers, these values are {}", variable.array.label(),
                       variable.decoding.is_packed() ? "packed numbers (scale_factor or add_offset)"
                                                     : h5::name_of(variable.array.element()));
  }
  add_field(FieldRole::labels, {request}, options_.lead, bare);
}

bool Composer::has_all(const std::vector<VariableRequest>& requests) const {
  return std::ranges::all_of(requests, [&](const VariableRequest& request) { return file_.has(request.name); });
}

/// Whether a variable has values of its own for some of the images.
bool Composer::changes_with_samples(const VariableRequest& request) const {
  const ForeignVariable variable = file_.open(request.name);
  return std::ranges::any_of(variable.axes, [&](const ForeignAxis& axis) {
    const bool is_chosen =
        std::ranges::find(request.choices, axis.name, &VariableRequest::Choice::axis) != request.choices.end();
    return axis.extent > 1 && !is_chosen && place_in(samples_.names(), axis.name);
  });
}

void Composer::add_mask(BareFile& bare) {
  const std::vector<VariableRequest> mask = parse_requests(options_.mask, options_.key("mask"));
  if (options_.mask_use != MaskUse::required && !has_all(mask)) return;
  const auto changes = [&](const VariableRequest& request) { return changes_with_samples(request); };
  if (options_.mask_use == MaskUse::lasting && std::ranges::any_of(mask, changes)) return;
  add_field(FieldRole::mask, mask, options_.lead, bare);
}

void Composer::add_missing_mask(BareFile& bare) const {
  if (options_.missing != Missing::mask) return;
  const Rows& images = *bare.rows.front();
  bare.rows.push_back(std::make_unique<MissingMask>(images, images.label()));
  const Rows& mask = *bare.rows.back();
  bare.info.fields.push_back(make_field(FieldRole::mask, "/mask", mask.shape(), mask.dtype(), /*per_set=*/false));
  bare.description += "missing values are masked\n";
}

BareFile Composer::bare_file() {
  BareFile bare;
  std::vector<VariableRequest> images;
  for (const std::string& text : options_.variables) images.push_back(parse_request(text, options_.key("variables")));
  const bool stands_in = !options_.stand_ins.empty() && !has_all(images);
  if (stands_in) images.clear();
  for (const std::string& text : options_.stand_ins) {
    if (stands_in) images.push_back(parse_request(text, options_.key("condition")));
  }
  add_field(FieldRole::image, images, options_.lead, bare);
  bare.info.count = bare.rows.front()->rows();
  add_labels(bare);
  std::vector<VariableRequest> given = options_.lead > 0 ? images : std::vector<VariableRequest>();
  std::ranges::copy(parse_requests(options_.condition, options_.key("condition")), std::back_inserter(given));
  add_field(FieldRole::condition, given, 0, bare);
  add_field(FieldRole::static_values, parse_requests(options_.static_values, options_.key("static")), 0, bare);
  add_field(FieldRole::parameters, parse_requests(options_.parameters, options_.key("parameters")), 0, bare);
  add_mask(bare);
  if (!stands_in) add_missing_mask(bare);
  bare.description += fmt::format("along [{}], lead {}\n", fmt::join(samples_.names(), ", "), options_.lead);
  bare.coordinates = std::move(coordinates_);
  bare.times = times_;
  const std::vector<std::string> periodic = file_.periodic_axes();
  for (const std::string& side : sides_) bare.periodic.push_back(place_in(periodic, side).has_value());
  if (!file_.tells_boundaries()) bare.periodic.clear();
  return bare;
}

}  // namespace

BareFile open_foreign_file(const h5::File& file, const DatasetOptions& options) {
  return Composer(file, options).bare_file();
}

}  // namespace ddpm::data
