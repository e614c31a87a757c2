// The program's command line: its subcommands, their options, and what a user gave of them. Only command_line.cpp
// includes the library that parses it, which costs a file five seconds of compiling.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/named.h"
#include "cli/command_facts.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ddpm::cli {

struct IntegerRange {
  int64_t min;
  int64_t max;
};
/// A NaN is outside every range.
struct NumberRange {
  double min;
  double max;
};
struct PositiveNumber {};
/// The seeds that run.seed takes. An unsigned option alone would take -1 for a very large number.
struct SeedRange {};
struct OneOf {
  std::vector<std::string> words;
};
/// The values that an option accepts.
using Accepted = std::variant<IntegerRange, NumberRange, PositiveNumber, SeedRange, OneOf>;

/// Reads `text` as an option does that accepts `accepted`. Returns what is wrong with it, or "".
std::string read_value(const std::string& text, const Accepted& accepted, std::string& value);
std::string read_value(const std::string& text, const Accepted& accepted, int64_t& value);
std::string read_value(const std::string& text, const Accepted& accepted, double& value);
/// Reads "0.3,0.4" as the value of `option`. Throws ConfigError for what is wrong with one of the numbers.
std::vector<double> read_numbers(const std::string& option, const std::string& text, const NumberRange& range);

/// The variable that an option sets. It has to live as long as the command line.
using Target = std::variant<std::string*, std::optional<std::string>*, std::vector<std::string>*,
                            std::filesystem::path*, std::vector<std::filesystem::path>*, int*, int64_t*,
                            std::optional<int64_t>*, uint64_t*, double*, std::optional<double>*>;

/// A variable of an enumeration's type, for an option that takes the names of its values.
struct Choice {
  std::vector<std::string> words;
  std::string usual;                     ///< the word of the value that it has now, "" where it can be unset
  std::function<void(std::size_t)> set;  ///< by the place of a word
};

/// An option of a subcommand, which owns it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required(bool is_required = true) const;
  Option accept(const Accepted& accepted) const;
  /// --help names the value that the variable has now.
  Option show_default() const;
  Option excludes(const Option& other) const;
  Option needs(const Option& other) const;
  /// --help does not show it, nor does anything that is made from the options.
  Option hidden() const;
  /// For a callback: refuses the command line, as for a required option, when this option was not given.
  void expect_given() const;

 private:
  CLI::Option* option_;
};

/// A subcommand, or the program itself, which has subcommands. The CommandLine owns it.
class Subcommand {
 public:
  explicit Subcommand(CLI::App* app) : app_(app) {}

  Subcommand add_subcommand(const std::string& name, const std::string& help) const;
  /// The command line has to name exactly one subcommand of this one.
  void require_subcommand() const;
  /// "--name" is an option with one value; a name without dashes is a word of the command line by its position.
  Option add(const std::string& name, const Target& target, const std::string& help) const;
  /// An option that accepts the names of an enumeration's values.
  template <base::Named E>
  Option add(const std::string& name, E* target, const std::string& help) const {
    return add_choice(name,
                      {base::all_names<E>(), std::string(base::name_of(*target)),
                       [target](std::size_t place) { *target = static_cast<E>(place); }},
                      help);
  }
  template <base::Named E>
  Option add(const std::string& name, std::optional<E>* target, const std::string& help) const {
    return add_choice(
        name, {base::all_names<E>(), "", [target](std::size_t place) { *target = static_cast<E>(place); }}, help);
  }
  Option add_flag(const std::string& name, bool& flag, const std::string& help) const;
  /// What --help ends with.
  void footer(const std::string& text) const;
  /// Called when a valid command line names this subcommand.
  void on_chosen(const std::function<void()>& callback) const;
  /// Takes keys of a configuration, too: "--section.key VALUE".
  void take_config_pairs() const;
  /// For a callback: the pairs that were given, as "--section.key=VALUE". Refuses the command line for another word.
  [[nodiscard]] std::vector<std::string> config_pairs() const;

  /// All that is declared of this command and those below it.
  [[nodiscard]] CommandFacts facts() const;
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::vector<std::string> option_names() const;
  [[nodiscard]] std::vector<std::string> subcommand_names() const;
  [[nodiscard]] bool takes_config_pairs() const;
  /// The words that are neither an option, nor a subcommand, nor a pair that is taken.
  [[nodiscard]] std::vector<std::string> unknown_words() const;

 private:
  Option add_choice(const std::string& name, const Choice& choice, const std::string& help) const;

  CLI::App* app_;
};

/// What a command line asks for.
enum class Asked : uint8_t { command, help, refused };

struct Parsed {
  Asked asked;
  std::string text;  ///< help: the text of --help or --version; refused: the reason
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  [[nodiscard]] Subcommand program() const;
  /// Calls the callback of the subcommand that is chosen. Call it once, after everything is declared.
  Parsed parse(int argc, const char* const* argv);
  /// The program and the subcommands that the command line names, from the program down.
  [[nodiscard]] std::vector<Subcommand> chosen() const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace ddpm::cli
