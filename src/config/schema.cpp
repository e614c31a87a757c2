#include "config/schema.h"

#include <algorithm>

#include "base/check.h"

namespace ddpm::config {
namespace {

Value to_value(bool value) { return {value}; }
Value to_value(int64_t value) { return {value}; }
Value to_value(double value) { return {value}; }
Value to_value(const std::string& value) { return {value}; }

template <typename T>
Value to_value(const std::optional<T>& value) {
  return value ? to_value(*value) : Value{};
}

template <typename T>
Value to_value(const std::vector<T>& list) {
  Array array;
  array.reserve(list.size());
  for (const T& item : list) array.push_back(to_value(item));
  return {std::move(array)};
}

// Returns the plainest of the three forms of a weighted list that has this meaning.
Value to_value(const std::vector<WeightedPath>& list) {
  const bool plain = std::all_of(list.begin(), list.end(), [](const WeightedPath& p) { return p.weight == 1.0; });
  if (plain && list.size() == 1) return {list.front().path};
  Array array;
  for (const WeightedPath& item : list) {
    if (plain) {
      array.push_back({item.path});
    } else {
      array.push_back({Table{{"path", {item.path}}, {"weight", {item.weight}}}});
    }
  }
  return {std::move(array)};
}

template <typename T>
Value held_by(const Entry& /*entry*/, const T* target) {
  return to_value(*target);
}

Value held_by(const Entry& entry, const EnumTarget& target) {
  const std::optional<std::size_t> choice = target.get(target.value);
  return choice ? Value{entry.options.choices.at(*choice)} : Value{};
}

}  // namespace

Section Schema::section(std::string name, std::string doc, Identity identity) {
  const bool known = std::any_of(sections_.begin(), sections_.end(), [&](const auto& s) { return s.first == name; });
  if (!known) sections_.emplace_back(name, std::move(doc));
  return {*this, std::move(name), identity};
}

const Entry* Schema::find(std::string_view path) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.path() == path; });
  return found == entries_.end() ? nullptr : &*found;
}

Section& Section::add(std::string name, Target target, std::string doc, KeyOptions options) {
  const Identity identity = options.identity.value_or(identity_);
  Entry entry{name_, std::move(name), std::move(doc), target, std::move(options), identity};
  DDPM_CHECK(schema_.find(entry.path()) == nullptr, "{} is declared twice", entry.path());
  entry.default_value = current(entry);
  schema_.entries_.push_back(std::move(entry));
  return *this;
}

Value current(const Entry& entry) {
  return std::visit([&entry](const auto& target) { return held_by(entry, target); }, entry.target);
}

}  // namespace ddpm::config
