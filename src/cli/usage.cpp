#include "cli/usage.h"

#include <optional>
#include <vector>

#include <fmt/format.h>

#include "cli/config_arguments.h"
#include "config/resolve.h"
#include "train/config.h"

namespace ddpm::cli {
namespace {

/// The commands of the command line, from the program down to the last subcommand.
std::vector<const CLI::App*> chosen_commands(const CLI::App& app) {
  std::vector<const CLI::App*> chain = {&app};
  while (!chain.back()->get_subcommands().empty()) chain.push_back(chain.back()->get_subcommands().front());
  return chain;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> subcommand_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* one : command.get_subcommands({})) names.push_back(one->get_name());
  return names;
}

/// The first word that `command` knows nothing of; options before others, because what follows one may be its value.
std::optional<std::string> unknown_word(const CLI::App& command) {
  std::optional<std::string> plain;
  for (const std::string& word : command.remaining()) {
    if (command.get_allow_extras() && is_config_pair(word)) continue;
    if (!plain && !command.get_subcommands({}).empty() && !word.starts_with("-")) return word;
    if (word.starts_with("-")) return word.substr(0, word.find('='));
    if (!plain) plain = word;
  }
  return plain;
}

/// Every option of a command that takes a configuration may also have been meant as one of its keys.
std::string nearest_option(const CLI::App& command, const std::string& word) {
  const std::string near = config::nearest(word, option_names(command));
  if (!near.empty() || !command.get_allow_extras()) return near;
  const std::string key =
      config::nearest_key(train::Configuration().schema(), word.substr(word.find_first_not_of('-')));
  return key.empty() ? "" : "--" + key;
}

struct Explanation {
  std::string what;
  std::string near;
};

Explanation explain(const CLI::App& command, const std::string& word) {
  if (word.starts_with("-") && word.find_first_not_of('-') != std::string::npos) {
    return {"unknown option " + word, nearest_option(command, word)};
  }
  const std::vector<std::string> names = subcommand_names(command);
  if (names.empty()) return {fmt::format("unexpected argument '{}'", word), ""};
  return {fmt::format("unknown command '{}'", word), config::nearest(word, names)};
}

}  // namespace

std::string usage_text(const CLI::App& app, const CLI::ParseError& error) {
  Explanation text{error.what(), ""};
  std::string help;
  for (const CLI::App* command : chosen_commands(app)) {
    help += command->get_name() + " ";
    const std::optional<std::string> word = unknown_word(*command);
    if (!word) continue;
    text = explain(*command, *word);
    break;
  }
  help += "--help";
  if (text.near.empty()) return fmt::format("{}; try {}", text.what, help);
  return fmt::format("{}; did you mean {}? Try {}", text.what, text.near, help);
}

}  // namespace ddpm::cli
