// One place for each configuration key: name, default, range, documentation and whether it belongs to a run's identity.
//
// A component owns a plain struct of values whose initialisers are the defaults, and one function
//
//   void describe(config::Section& section, OptimizerConfig& c) {
//     section.key("learning_rate", c.learning_rate, "Peak learning rate", {.min = 0.0});
//   }
//
// Everything else (TOML, dotted overrides, printing, the reference page, hashing, comparing on resume) is done by
// plain functions over the table of entries that these functions fill. See config/resolve.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/named.h"

namespace ddpm::config {

/// A parsed value of TOML, JSON or the command line. null comes from JSON only: it leaves an optional unset and a list
/// empty.
struct Value;
using Array = std::vector<Value>;
using Table = std::vector<std::pair<std::string, Value>>;
struct Value {
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, Array, Table> data = nullptr;
  uint32_t line = 0;  ///< where it stands in its file; 0: not known
};

/// A weighted training set: the array form of `data.train`.
struct WeightedPath {
  std::string path;
  double weight = 1.0;
};

/// Accesses the value of an enumeration, seen as the place of its name in the entry's choices.
struct EnumTarget {
  void* value;
  /// Nothing means unset.
  std::optional<std::size_t> (*get)(const void* value);
  void (*set)(void* value, std::optional<std::size_t> choice);
  bool optional;  ///< it can be unset

  template <typename E>
  static EnumTarget of(E& value) {
    return {&value, [](const void* at) { return std::optional(static_cast<std::size_t>(*static_cast<const E*>(at))); },
            [](void* at, std::optional<std::size_t> choice) { *static_cast<E*>(at) = static_cast<E>(choice.value()); },
            false};
  }
  template <typename E>
  static EnumTarget of(std::optional<E>& value) {
    return {&value,
            [](const void* at) {
              const auto& held = *static_cast<const std::optional<E>*>(at);
              return held ? std::optional(static_cast<std::size_t>(*held)) : std::nullopt;
            },
            [](void* at, std::optional<std::size_t> choice) {
              auto& held = *static_cast<std::optional<E>*>(at);
              held = choice ? std::optional(static_cast<E>(*choice)) : std::nullopt;
            },
            true};
  }
};

/// Where the value of an entry lives. Vectors accept a scalar too (a list of one).
using Target =
    std::variant<bool*, int64_t*, double*, std::string*, std::optional<bool>*, std::optional<int64_t>*,
                 std::optional<double>*, std::optional<std::string>*, std::vector<bool>*, std::vector<int64_t>*,
                 std::vector<double>*, std::vector<std::string>*, std::vector<WeightedPath>*, EnumTarget>;

enum class Identity : uint8_t {
  fixed,       ///< belongs to the run: refused with both values when changed on resume
  may_change,  ///< may change on resume, which is logged
};

/// Besides the limits declared here, a float key accepts only what float32 holds, because LibTorch computes with that:
/// nothing beyond 3.4e38, and nothing but 0 that it rounds to 0. Integers take the range of int64 unless a bound is
/// declared.
struct KeyOptions {
  double min = -std::numeric_limits<double>::infinity();  ///< inclusive, for numbers (each one of a list)
  double max = std::numeric_limits<double>::infinity();   ///< inclusive
  bool above_min = false;                                 ///< min itself is excluded
  bool below_max = false;                                 ///< max itself is excluded
  /// Allowed strings; empty: any. An enumeration brings its own.
  std::vector<std::string> choices = {};
  std::optional<Identity> identity = std::nullopt;  ///< overrides the section's
  /// A key of the same section that means the same in other terms. A file or a command line that sets this key unsets
  /// that one, so that the later of them wins; both at once are left for the component to refuse.
  std::string instead_of = {};
  /// A key of the same section, true or false or a whole number: while it is true, or above 0, this one may change on
  /// resume.
  std::string freed_by = {};
  std::string default_text = {};  ///< shown in place of a default that is derived ("all data-parallel ranks")
};

struct Entry {
  std::string section;
  std::string key;
  std::string doc;
  Target target;
  KeyOptions options;
  Identity identity;
  Value default_value = {};  ///< what the target held when it was declared; null: unset
  [[nodiscard]] std::string path() const { return section + "." + key; }
};

/// What the target of `entry` holds now; null: unset.
Value current(const Entry& entry);

class Section;

/// The table of all keys of a configuration, in declaration order. Holds pointers into the described structs.
class Schema {
 public:
  /// Begins a section; `identity` is the default of its keys.
  Section section(std::string name, std::string doc, Identity identity);
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& sections() const { return sections_; }
  /// The entry of "section.key", or null.
  [[nodiscard]] const Entry* find(std::string_view path) const;

 private:
  friend class Section;
  std::vector<Entry> entries_;
  std::vector<std::pair<std::string, std::string>> sections_;  // name, documentation
};

class Section {
 public:
  /// Declares one key. `value` holds the default now and the resolved value later.
  template <typename T>
  Section& key(std::string name, T& value, std::string doc, KeyOptions options = {}) {
    return add(std::move(name), Target(&value), std::move(doc), std::move(options));
  }
  /// Declares a key that is one of an enumeration's values, and has their names as its choices.
  template <base::Named E>
  Section& key(std::string name, E& value, std::string doc, KeyOptions options = {}) {
    options.choices = base::all_names<E>();
    const Target target = EnumTarget::of(value);
    return add(std::move(name), target, std::move(doc), std::move(options));
  }
  /// Declares such a key that can be unset.
  template <base::Named E>
  Section& key(std::string name, std::optional<E>& value, std::string doc, KeyOptions options = {}) {
    options.choices = base::all_names<E>();
    const Target target = EnumTarget::of(value);
    return add(std::move(name), target, std::move(doc), std::move(options));
  }

 private:
  friend class Schema;
  Section(Schema& schema, std::string name, Identity identity)
      : schema_(schema), name_(std::move(name)), identity_(identity) {}
  Section& add(std::string name, Target target, std::string doc, KeyOptions options);

  Schema& schema_;
  std::string name_;
  Identity identity_;
};

}  // namespace ddpm::config
