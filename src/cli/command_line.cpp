#include "cli/command_line.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/parse_number.h"

namespace ddpm::cli {
namespace {

CLI::Validator validator(const IntegerRange& range) { return CLI::Range(range.min, range.max); }

/// Unlike CLI::Range, which compares with its bounds, this refuses a NaN.
CLI::Validator validator(const NumberRange& range) {
  const auto refusal = [range](const std::string& text) {
    const auto value = base::parse_number<double>(text);
    if (value && *value >= range.min && *value <= range.max) return std::string();
    return fmt::format("{} is not a number from {} to {}", text, range.min, range.max);
  };
  return {refusal, fmt::format("FLOAT in [{} - {}]", range.min, range.max)};
}

CLI::Validator validator(const PositiveNumber& /*unit*/) { return CLI::PositiveNumber; }

/// CLI::Range would take a number beyond all integers for the largest one.
CLI::Validator validator(const SeedRange& /*unit*/) {
  const auto refusal = [](const std::string& text) {
    if (base::parse_number<int64_t>(text).value_or(-1) >= 0) return std::string();
    return fmt::format("{} is not an integer from 0 to {}", text, std::numeric_limits<int64_t>::max());
  };
  return {refusal, "SEED"};
}

CLI::Validator validator(const OneOf& one_of) { return CLI::IsMember(one_of.words); }

CLI::Validator validator(const Accepted& accepted) {
  return std::visit([](const auto& one) { return validator(one); }, accepted);
}

template <typename T>
std::string read(const std::string& text, const Accepted& accepted, T& value) {
  std::string refusal = validator(accepted)(text);
  if (refusal.empty()) DDPM_CHECK(CLI::detail::lexical_cast(text, value), "{}", text);
  return refusal;
}

/// "--section.key" or "--section.key=VALUE".
bool is_config_pair(const std::string& word) {
  return word.starts_with("--") && word.substr(0, word.find('=')).find('.') != std::string::npos;
}

/// The words after the program's name, with "--section.key VALUE" joined to one word "--section.key=VALUE": CLI11,
/// which does not know the keys, would take VALUE for a file.
std::vector<std::string> joined_words(int argc, const char* const* argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const bool wants_value = is_config_pair(word) && word.find('=') == std::string::npos;
    if (wants_value && i + 1 < argc && !std::string(argv[i + 1]).starts_with("--")) {
      word += "=";
      word += argv[++i];
    }
    words.push_back(std::move(word));
  }
  return words;
}

/// A shell passes an empty word for a variable that is not set, so no option and no path accepts one. Keys of the
/// configuration do, but they are not CLI11's options.
void refuse_empty_words(CLI::App& app) {
  const CLI::Validator filled([](const std::string& word) { return word.empty() ? "is empty" : std::string(); }, "");
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) option->check(filled);
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_words(*command);
}

/// The words of "TEXT:{png,dataset}".
std::vector<std::string> words_in(const std::string& type) {
  std::vector<std::string> words;
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return words;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(list, word, ',');) words.push_back(word);
  return words;
}

OptionFacts facts_of(const CLI::Option& option) {
  const bool positional = option.get_positional();
  return {.name = option.get_name(positional),
          .help = option.get_description(),
          .value = option.get_items_expected_max() > 0 ? option.get_type_name() : "",
          .words = words_in(option.get_type_name()),
          .usual = option.get_default_str(),
          .required = option.get_required(),
          .positional = positional,
          .many = option.get_items_expected_max() > 1};
}

CommandFacts facts_of(CLI::App& app) {
  CommandFacts facts{.name = app.get_name(),
                     .help = app.get_description(),
                     .footer = app.get_footer(),
                     .takes_config_pairs = app.get_allow_extras(),
                     .options = {},
                     .commands = {}};
  for (const CLI::Option* option : std::as_const(app).get_options()) {
    if (!option->get_group().empty()) facts.options.push_back(facts_of(*option));
  }
  for (CLI::App* command : app.get_subcommands({})) facts.commands.push_back(facts_of(*command));
  return facts;
}

}  // namespace

std::string read_value(const std::string& text, const Accepted& accepted, std::string& value) {
  return read(text, accepted, value);
}
std::string read_value(const std::string& text, const Accepted& accepted, int64_t& value) {
  return read(text, accepted, value);
}
std::string read_value(const std::string& text, const Accepted& accepted, double& value) {
  return read(text, accepted, value);
}

std::vector<double> read_numbers(const std::string& option, const std::string& text, const NumberRange& range) {
  std::vector<double> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string problem = read_value(text.substr(begin, end - begin), range, numbers.emplace_back());
    if (!problem.empty()) throw base::ConfigError("{} {}: {}", option, text, problem);
    begin = end + 1;
  }
  return numbers;
}

Option Option::required(bool is_required) const { return Option(option_->required(is_required)); }
Option Option::accept(const Accepted& accepted) const { return Option(option_->check(validator(accepted))); }
Option Option::show_default() const { return Option(option_->capture_default_str()); }
Option Option::excludes(const Option& other) const { return Option(option_->excludes(other.option_)); }
Option Option::needs(const Option& other) const { return Option(option_->needs(other.option_)); }

Option Option::hidden() const { return Option(option_->group("")); }

void Option::expect_given() const {
  if (option_->empty()) throw CLI::RequiredError(option_->get_name());
}

Subcommand Subcommand::add_subcommand(const std::string& name, const std::string& help) const {
  return Subcommand(app_->add_subcommand(name, help));
}

void Subcommand::require_subcommand() const { app_->require_subcommand(1); }

Option Subcommand::add(const std::string& name, const Target& target, const std::string& help) const {
  return Option(std::visit([&](auto* variable) { return app_->add_option(name, *variable, help); }, target));
}

Option Subcommand::add_choice(const std::string& name, const Choice& choice, const std::string& help) const {
  const auto take = [words = choice.words, set = choice.set](const std::string& word) {
    set(static_cast<std::size_t>(std::ranges::find(words, word) - words.begin()));
  };
  return Option(app_->add_option_function<std::string>(name, take, help)
                    ->check(CLI::IsMember(choice.words))
                    ->default_function([usual = choice.usual] { return usual; }));
}

Option Subcommand::add_flag(const std::string& name, bool& flag, const std::string& help) const {
  return Option(app_->add_flag(name, flag, help));
}

void Subcommand::footer(const std::string& text) const { app_->footer(text); }
void Subcommand::on_chosen(const std::function<void()>& callback) const { app_->callback(callback); }
void Subcommand::take_config_pairs() const { app_->allow_extras(); }

std::vector<std::string> Subcommand::config_pairs() const {
  if (!unknown_words().empty()) throw CLI::ExtrasError(app_->remaining());
  return app_->remaining();
}

CommandFacts Subcommand::facts() const { return facts_of(*app_); }
std::string Subcommand::name() const { return app_->get_name(); }

std::vector<std::string> Subcommand::option_names() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> Subcommand::subcommand_names() const {
  std::vector<std::string> names;
  for (const CLI::App* one : app_->get_subcommands({})) names.push_back(one->get_name());
  return names;
}

bool Subcommand::takes_config_pairs() const { return app_->get_allow_extras(); }

std::vector<std::string> Subcommand::unknown_words() const {
  std::vector<std::string> words = app_->remaining();
  if (takes_config_pairs()) std::erase_if(words, is_config_pair);
  return words;
}

CommandLine::CommandLine(const std::string& name, const std::string& description, const std::string& version)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->set_version_flag("--version", version);
}

CommandLine::~CommandLine() = default;

Subcommand CommandLine::program() const { return Subcommand(app_.get()); }

Parsed CommandLine::parse(int argc, const char* const* argv) {
  refuse_empty_words(*app_);
  try {
    std::vector<std::string> words = joined_words(argc, argv);
    std::ranges::reverse(words);  // as CLI11 wants them
    app_->parse(std::move(words));
    return {Asked::command, ""};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return {Asked::refused, error.what()};
    std::ostringstream help;
    app_->exit(error, help, help);
    return {Asked::help, help.str()};
  }
}

std::vector<Subcommand> CommandLine::chosen() const {
  std::vector<Subcommand> chain;
  for (CLI::App* app = app_.get(); app != nullptr;) {
    chain.emplace_back(app);
    const auto below = app->get_subcommands();
    app = below.empty() ? nullptr : below.front();
  }
  return chain;
}

}  // namespace ddpm::cli
