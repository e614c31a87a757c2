#include "cli/usage.h"

#include <optional>
#include <vector>

#include <fmt/format.h>

#include "config/resolve.h"
#include "train/config.h"

namespace ddpm::cli {
namespace {

/// Returns the first word that `command` does not know. Options come before other words, because what follows an option
/// may be its value.
std::optional<std::string> unknown_word(const Subcommand& command) {
  std::optional<std::string> plain;
  for (const std::string& word : command.unknown_words()) {
    if (!plain && !command.subcommand_names().empty() && !word.starts_with("-")) return word;
    if (word.starts_with("-")) return word.substr(0, word.find('='));
    if (!plain) plain = word;
  }
  return plain;
}

/// Every option of a command that takes a configuration may also have been meant as one of its keys.
std::string nearest_option(const Subcommand& command, const std::string& word) {
  const std::string near = config::nearest(word, command.option_names());
  if (!near.empty() || !command.takes_config_pairs()) return near;
  const std::string key =
      config::nearest_key(train::Configuration().schema(), word.substr(word.find_first_not_of('-')));
  return key.empty() ? "" : "--" + key;
}

struct Explanation {
  std::string what;
  std::string near;
};

Explanation explain(const Subcommand& command, const std::string& word) {
  if (word.starts_with("-") && word.find_first_not_of('-') != std::string::npos) {
    return {"unknown option " + word, nearest_option(command, word)};
  }
  const std::vector<std::string> names = command.subcommand_names();
  if (names.empty()) return {fmt::format("unexpected argument '{}'", word), ""};
  return {fmt::format("unknown command '{}'", word), config::nearest(word, names)};
}

}  // namespace

std::string usage_text(const CommandLine& line, const std::string& reason) {
  Explanation text{reason, ""};
  std::string help;
  for (const Subcommand& command : line.chosen()) {
    help += command.name() + " ";
    const std::optional<std::string> word = unknown_word(command);
    if (!word) continue;
    text = explain(command, *word);
    break;
  }
  help += "--help";
  if (text.near.empty()) return fmt::format("{}; try {}", text.what, help);
  return fmt::format("{}; did you mean {}? Try {}", text.what, text.near, help);
}

}  // namespace ddpm::cli
