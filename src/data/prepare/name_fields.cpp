// Names and units of variables, as a command line gives them.
#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/shortened.h"
#include "data/plain_text.h"
#include "data/prepare/create_fields.h"

namespace ddpm::data::prepare {
namespace {

using base::ConfigError;

/// The pieces between separators, without spaces around them.
std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const auto end = text.find(separator);
    pieces.push_back(base::trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

void expect_word(const char* option, std::string_view word, bool may_be_empty) {
  const bool unit = may_be_empty;  // units may contain a slash, as m/s does
  if ((!word.empty() || may_be_empty) && is_plain(word) && (unit || word.find_first_of("/=") == std::string_view::npos))
    return;
  throw ConfigError("{}: \"{}\" is no {} of 1 to {} printable bytes without / and =", option, word,
                    unit ? "unit" : "name", kMaxNameBytes);
}

/// Sets what `member` points to, of all variables of the fields that `text` names.
void set_texts(const char* option, const std::string& text, std::string Variable::*member, bool may_be_empty,
               std::vector<Field>& fields) {
  if (base::trimmed(text).empty()) return;
  for (const std::string_view part : pieces_of(text, ';')) {
    const auto colon = part.find(':');
    const std::string_view name = colon == std::string_view::npos ? "images" : base::trimmed(part.substr(0, colon));
    const auto words = pieces_of(colon == std::string_view::npos ? part : part.substr(colon + 1), ',');
    const auto field = std::ranges::find_if(fields, [&](const Field& f) {
      return f.name == name || (colon == std::string_view::npos && f.role == FieldRole::image);
    });
    if (field == fields.end() || field->variables.empty()) {
      std::vector<std::string> names;
      for (const Field& one : fields) {
        if (!one.variables.empty()) names.push_back(one.name);
      }
      throw ConfigError("{}: no field with variables is called \"{}\"; there are {}", option, name,
                        fmt::join(names, ", "));
    }
    if (words.size() != field->variables.size()) {
      throw ConfigError("{}: {} words for {}, which has {} variables", option, words.size(), field->name,
                        field->variables.size());
    }
    for (std::size_t v = 0; v < words.size(); ++v) {
      expect_word(option, words[v], may_be_empty);
      field->variables[v].*member = words[v];
      if (may_be_empty || std::ranges::count(words, words[v]) == 1) continue;
      throw ConfigError("{}: {} has the name \"{}\" twice", option, field->name, words[v]);
    }
  }
}

}  // namespace

std::vector<Field> named_fields(const FieldSource& source, const ArrayOptions& options) {
  std::vector<Field> fields = source.fields();
  fields.insert(fields.end(), source.set_fields().begin(), source.set_fields().end());
  set_texts("--names", options.names, &Variable::name, /*may_be_empty=*/false, fields);
  set_texts("--units", options.units, &Variable::unit, /*may_be_empty=*/true, fields);
  return fields;
}

}  // namespace ddpm::data::prepare
