#include "config/schema.h"

#include <algorithm>

#include "base/check.h"
#include "config/value.h"

namespace ddpm::config {

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

}  // namespace ddpm::config
