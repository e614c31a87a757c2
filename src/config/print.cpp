// The configuration as text for people: TOML to edit, and the reference page.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <variant>

#include <fmt/format.h>

#include "config/resolve.h"
#include "config/value.h"

namespace ddpm::config {
namespace {

bool is_unset(const Value& value) { return std::holds_alternative<std::nullptr_t>(value.data); }

std::string unset_text(const Entry& entry) {
  return entry.options.default_text.empty() ? "unset" : entry.options.default_text;
}

// ", at least 0" and the like, after a key's documentation; nothing when any value is allowed.
std::string limits(const KeyOptions& options) {
  if (!options.choices.empty()) return fmt::format(" ({})", choices_text(options.choices));
  const bool low = !std::isinf(options.min);
  const bool high = !std::isinf(options.max);
  if (!low && !high) return "";
  const std::string least = low ? fmt::format("{} {}", options.above_min ? "above" : "at least", options.min) : "";
  const std::string most = high ? fmt::format("{} {}", options.below_max ? "below" : "at most", options.max) : "";
  return fmt::format(" ({}{}{})", least, low && high ? ", " : "", most);
}

// Whether a run that is resumed may change all keys of a section.
bool may_change(const Schema& schema, std::string_view section) {
  return std::ranges::none_of(schema.entries(), [&](const Entry& entry) {
    return entry.section == section && entry.identity != Identity::may_change;
  });
}

// What a section is for, and whether its keys may change.
std::string section_text(const Schema& schema, const std::string& name, const std::string& doc) {
  return doc + (may_change(schema, name) ? " A run that is resumed may change all of it." : "");
}

// What a key means, which values it takes, and whether it may change where not all of its section may.
std::string key_text(const Schema& schema, const Entry& entry) {
  const bool changes = entry.identity == Identity::may_change;
  const std::string& freed_by = entry.options.freed_by;
  std::string text = entry.doc;
  if (may_change(schema, entry.section) || (!changes && freed_by.empty())) return text + limits(entry.options);
  if (!text.ends_with('.')) text += '.';
  text += changes ? " May change on resume." : fmt::format(" May change on resume where {} is set.", freed_by);
  return text + limits(entry.options);
}

std::string toml_line(const Entry& entry) {
  const Value value = current(entry);
  if (is_unset(value)) return fmt::format("# {} = ({})\n", entry.key, unset_text(entry));
  return fmt::format("{} = {}\n", entry.key, to_text(value));
}

std::string default_of(const Entry& entry) {
  if (!entry.options.default_text.empty()) return entry.options.default_text;
  return is_unset(entry.default_value) ? "unset" : fmt::format("`{}`", to_text(entry.default_value));
}

// A pipe would end the cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, 1, '\\');
  return text;
}

}  // namespace

std::string to_toml(const Schema& schema, bool documented) {
  std::string text;
  for (const auto& [name, doc] : schema.sections()) {
    if (!text.empty()) text += "\n";
    if (documented) text += fmt::format("# {}\n", section_text(schema, name, doc));
    text += fmt::format("[{}]\n", name);
    for (const Entry& entry : schema.entries()) {
      if (entry.section != name) continue;
      if (documented) text += fmt::format("# {}\n", key_text(schema, entry));
      text += toml_line(entry);
    }
  }
  return text;
}

std::string to_markdown(const Schema& schema) {
  std::string text =
      "# Configuration keys\n\n"
      "What `ddpm config show --markdown` prints. Values come from the defaults below, then from the TOML files, of "
      "which later\nones win, then from the command line (`--section.key VALUE`). Numbers with a fraction take what "
      "float32 holds. A run\nthat is resumed may change those of which this page says so.\n\n";
  for (const auto& [name, doc] : schema.sections()) {
    text += fmt::format("## `[{}]`\n\n{}\n\n| key | default | meaning |\n|---|---|---|\n", name,
                        section_text(schema, name, doc));
    for (const Entry& entry : schema.entries()) {
      if (entry.section != name) continue;
      text += fmt::format("| `{}` | {} | {} |\n", entry.key, cell(default_of(entry)), cell(key_text(schema, entry)));
    }
    text += "\n";
  }
  text.pop_back();
  return text;
}

}  // namespace ddpm::config
