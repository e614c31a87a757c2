// The declared commands and options as data: what completions of shells and manual pages are made from.
#pragma once

#include <string>
#include <vector>

namespace ddpm::cli {

struct OptionFacts {
  std::string name;  ///< "--size", or "CONFIG" for a word by its position
  std::string help;
  std::string value;               ///< "INT", "TEXT", "FLOAT in [0 - 1]"; "" for a flag
  std::vector<std::string> words;  ///< the values that it accepts; empty: others than words
  std::string usual;               ///< the value where it is not given, where --help names it
  bool required = false;
  bool positional = false;
  bool many = false;  ///< it takes several values

  [[nodiscard]] bool is_flag() const { return value.empty() && !positional; }
  /// Whether its value is a text of any kind, such as a file.
  [[nodiscard]] bool takes_text() const { return words.empty() && value.starts_with("TEXT"); }
};

struct CommandFacts {
  std::string name;  ///< "create"
  std::string help;
  std::string footer;
  bool takes_config_pairs = false;
  std::vector<OptionFacts> options;  ///< without those that --help does not show
  std::vector<CommandFacts> commands;
};

/// A key of the configuration, which some commands take as "--section.key VALUE".
struct KeyFacts {
  std::string path;  ///< "optimizer.learning_rate"
  std::string help;
  std::vector<std::string> words;  ///< the values that it accepts; empty: others than words
};

}  // namespace ddpm::cli
