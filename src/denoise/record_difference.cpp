#include "denoise/record_difference.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "base/named.h"
#include "base/shortened.h"
#include "data/field.h"

namespace ddpm::denoise {
namespace {

std::string shape_text(const data::Field& field) {
  return fmt::format("[{}] of {}{}", fmt::join(field.shape, ", "), data::numpy_name(field.dtype),
                     field.per_set ? " for the whole set" : "");
}

/// "t2m (K), u10 (m/s)"
std::string names_text(const std::vector<data::Variable>& variables) {
  std::vector<std::string> names;
  names.reserve(variables.size());
  for (const data::Variable& variable : variables) {
    names.push_back(variable.unit.empty() ? variable.name : fmt::format("{} ({})", variable.name, variable.unit));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool has_same_name(const data::Variable& one, const data::Variable& other) {
  return one.name == other.name && one.unit == other.unit;
}

std::string axes_text(const std::vector<bool>& axes) {
  std::vector<std::string> words;
  words.reserve(axes.size());
  for (const bool goes_around : axes) words.emplace_back(goes_around ? "true" : "false");
  return axes.empty() ? "none" : fmt::format("[{}]", fmt::join(words, ", "));
}

std::string sides_text(const std::vector<int64_t>& sides) { return fmt::format("{}", fmt::join(sides, " × ")); }

std::string map_text(const data::Normalization& map) { return fmt::format("x · {} + {}", map.scale, map.offset); }

class Differences {
 public:
  void compare(const ImageRecord& seen, const ImageRecord& wanted) {
    say("images", std::string(data::numpy_name(seen.dtype)), std::string(data::numpy_name(wanted.dtype)));
    if (seen.fields.empty() || wanted.fields.empty()) {
      say("images", map_text(seen.normalization), map_text(wanted.normalization));
      compare_plain_images(seen, wanted);
    }
    for (const data::FieldRole role :
         {data::FieldRole::image, data::FieldRole::labels, data::FieldRole::condition, data::FieldRole::static_values,
          data::FieldRole::parameters, data::FieldRole::mask}) {
      compare_fields(role, seen.fields, wanted.fields);
    }
    say("positions", fmt::format("{}", seen.positions), fmt::format("{}", wanted.positions));
    say("axes that go around", axes_text(seen.wraps), axes_text(wanted.wraps));
  }

  [[nodiscard]] std::string text() const {
    constexpr std::size_t kShown = 3;
    const std::size_t shown = std::min(kShown, parts_.size());
    const std::size_t others = parts_.size() - shown;
    return fmt::format("{}{}", fmt::join(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(shown), "; "),
                       others > 0 ? fmt::format(" and {} more", others) : "");
  }

 private:
  void add(const std::string& what, const std::string& seen, const std::string& wanted) {
    const auto shown = [](const std::string& whole) { return base::shortened(whole, base::kLongestShownName); };
    parts_.push_back(fmt::format("{}: {}, wanted {}", what, shown(seen), shown(wanted)));
  }
  void say(const std::string& what, const std::string& seen, const std::string& wanted) {
    if (seen != wanted) add(what, seen, wanted);
  }

  /// What a field tells of images that have one.
  void compare_plain_images(const ImageRecord& seen, const ImageRecord& wanted) {
    if (seen.has_other_names(wanted)) add("variables of the image", names_text(seen.names), names_text(wanted.names));
    if (!seen.has_other_places(wanted)) return;
    add("whole images, in which the model is given positions", sides_text(seen.whole_sides()),
        sides_text(wanted.whole_sides()));
  }

  void compare_fields(data::FieldRole role, const std::vector<data::Field>& seen,
                      const std::vector<data::Field>& wanted) {
    const data::Field* one = field_of(seen, role);
    const data::Field* other = field_of(wanted, role);
    const std::string name(base::name_of(role));
    if (one != nullptr && other != nullptr) return compare_field(name, *one, *other);
    if (one != nullptr) add(name, shape_text(*one), "none");
    if (other != nullptr) add(name, "none", shape_text(*other));
  }

  void compare_field(const std::string& role, const data::Field& seen, const data::Field& wanted) {
    say(role, shape_text(seen), shape_text(wanted));
    say(fmt::format("name of the {}", role), seen.name, wanted.name);
    say(fmt::format("array of the {}", role), seen.path, wanted.path);
    if (!std::ranges::equal(seen.variables, wanted.variables, has_same_name)) {
      return add(fmt::format("variables of the {}", role), names_text(seen.variables), names_text(wanted.variables));
    }
    for (std::size_t v = 0; v < wanted.variables.size(); ++v) {
      const data::Transform& one = seen.variables[v].transform;
      const data::Transform& other = wanted.variables[v].transform;
      if (one == other) continue;
      // Numbers may differ in digits that the text does not show, and grids in any of their points.
      const bool alike = one.text() == other.text();
      add(fmt::format("{} {}", role, wanted.variables[v].name), one.text(),
          alike ? fmt::format("{} with other numbers", other.text()) : other.text());
    }
  }

  std::vector<std::string> parts_;
};

}  // namespace

std::string difference(const ImageRecord& seen, const ImageRecord& wanted) {
  Differences differences;
  differences.compare(seen, wanted);
  return differences.text();
}

}  // namespace ddpm::denoise
