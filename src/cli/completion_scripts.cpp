#include "cli/completion_scripts.h"

#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/version.h"

namespace ddpm::cli {
namespace {

/// What an option's value or a word by its position is completed to: words, files, or nothing.
constexpr const char* kFiles = "@files";
constexpr const char* kNothing = "@nothing";

std::string completed_to(const OptionFacts& option) {
  if (!option.words.empty()) return fmt::format("{}", fmt::join(option.words, " "));
  return option.takes_text() ? kFiles : kNothing;
}

/// Calls `take(chain, command)` for each command, from the program down: "" for it, "data create".
using Take = std::function<void(const std::string&, const CommandFacts&)>;
void for_each_command(const CommandFacts& command, const std::string& chain, const Take& take) {
  take(chain, command);
  for (const CommandFacts& below : command.commands) {
    for_each_command(below, chain.empty() ? below.name : chain + " " + below.name, take);
  }
}

std::vector<std::string> names_of(const std::vector<CommandFacts>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CommandFacts& command : commands) names.push_back(command.name);
  return names;
}

/// In single quotes, with what ends them as `quote`.
std::string quoted(std::string text, const std::string& quote) {
  for (std::size_t at = text.find('\''); at != std::string::npos; at = text.find('\'', at + quote.size())) {
    text.replace(at, 1, quote);
  }
  return "'" + text + "'";
}

/// The first sentence or so of a help, on one line.
std::string short_help(const std::string& help) {
  constexpr std::size_t kLongest = 90;
  std::string text = help.substr(0, help.find('\n'));
  text = text.substr(0, text.find(". "));
  if (text.size() <= kLongest) return text;
  std::size_t end = text.rfind(' ', kLongest);
  return text.substr(0, end == std::string::npos ? kLongest : end) + " ...";
}

/// The tables that bash and zsh look things up in: lines of `['KEY']='WORDS'`. A chain has "ddpm" in front, since an
/// empty key is none.
struct Tables {
  std::string commands;
  std::string options;
  std::string values;   ///< by "ddpm data create --crop"
  std::string words;    ///< by position
  std::string chains;   ///< commands that take keys of the configuration
  std::string keys;     ///< all keys
  std::string choices;  ///< by "--section.key"
};

std::string row(const std::string& key, const std::string& words) {
  return fmt::format("  [{}]={}\n", quoted(key, "'\\''"), quoted(words, "'\\''"));
}

void add_options(const std::string& key, const CommandFacts& command, Tables& tables) {
  std::vector<std::string> names;
  std::string positional;
  for (const OptionFacts& option : command.options) {
    if (option.positional) {
      positional += (positional.empty() ? "" : " ") + completed_to(option);
      continue;
    }
    names.push_back(option.name);
    if (!option.is_flag()) tables.values += row(key + " " + option.name, completed_to(option));
  }
  tables.options += row(key, fmt::format("{}", fmt::join(names, " ")));
  if (!positional.empty()) tables.words += row(key, positional);
}

Tables tables_of(const CommandFacts& program, const std::vector<KeyFacts>& keys) {
  Tables tables;
  for_each_command(program, "", [&](const std::string& chain, const CommandFacts& command) {
    const std::string key = chain.empty() ? "ddpm" : "ddpm " + chain;
    if (!command.commands.empty())
      tables.commands += row(key, fmt::format("{}", fmt::join(names_of(command.commands), " ")));
    add_options(key, command, tables);
    if (command.takes_config_pairs) tables.chains += row(key, "yes");
  });
  std::vector<std::string> paths;
  for (const KeyFacts& key : keys) {
    paths.push_back("--" + key.path);
    if (!key.words.empty()) tables.choices += row("--" + key.path, fmt::format("{}", fmt::join(key.words, " ")));
  }
  tables.keys = fmt::format("{}", fmt::join(paths, " "));
  return tables;
}

std::string tables_text(const Tables& t) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& rows) {
    text += fmt::format("typeset -gA _ddpm_{}=(\n{})\n", name, rows);
  };
  add("commands", t.commands);
  add("options", t.options);
  add("values", t.values);
  add("words", t.words);
  add("takes_keys", t.chains);
  add("choices", t.choices);
  return text + fmt::format("_ddpm_keys='{}'\n", t.keys);
}

/// CURRENT BEFORE WORDS...: sets `offered` to what the word CURRENT may become, which follows the words BEFORE it.
constexpr const char* kLookUp = R"(
_ddpm_look_up() {
  local current=$1 before=$2 chain=ddpm word
  shift 2
  for word in "$@"; do
    [[ " ${_ddpm_commands[$chain]-} " == *" $word "* ]] || break
    chain+=" $word"
  done
  offered=${_ddpm_values[$chain $before]-}
  if [[ -z $offered && -n ${_ddpm_takes_keys[$chain]-} && $before == --*.* ]]; then
    offered=${_ddpm_choices[$before]-@files}
  fi
  [[ -z $offered ]] || return 0
  if [[ $current == -* ]]; then
    offered=${_ddpm_options[$chain]-}
    [[ -z ${_ddpm_takes_keys[$chain]-} ]] || offered+=" $_ddpm_keys"
  else
    offered="${_ddpm_commands[$chain]-} ${_ddpm_words[$chain]-}"
  fi
}
)";

constexpr const char* kBash = R"(
_ddpm() {
  local current=${COMP_WORDS[COMP_CWORD]} offered=
  COMPREPLY=()
  _ddpm_look_up "$current" "${COMP_WORDS[COMP_CWORD-1]}" "${COMP_WORDS[@]:1:COMP_CWORD-1}"
  if [[ " $offered " == *" @files "* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    offered=${offered//@files/}
  fi
  offered=${offered//@nothing/}
  local -a words
  mapfile -t words < <(compgen -W "$offered" -- "$current")
  COMPREPLY+=("${words[@]}")
}
complete -F _ddpm ddpm
)";

constexpr const char* kZsh = R"(
_ddpm() {
  local offered=
  _ddpm_look_up "$PREFIX" "${words[CURRENT-1]}" "${(@)words[2,CURRENT-1]}"
  [[ " $offered " != *" @files "* ]] || _files
  local -a list
  list=(${=${${offered//@files/}//@nothing/}})
  compadd -a -- list
}
if [[ ${funcstack[1]-} == _ddpm ]]; then
  _ddpm "$@"
elif (( ${+functions[compdef]} )); then
  compdef _ddpm ddpm
fi
)";

constexpr const char* kFish = R"(
function __ddpm_chain
  set -l chain
  set -l words (commandline -opc)
  for word in $words[2..-1]
    set -l next (string join ' ' -- $chain $word)
    contains -- $next $__ddpm_chains; or break
    set chain $next
  end
  echo "$chain"
end
function __ddpm_at
  test (__ddpm_chain) = "$argv[1]"
end
function __ddpm_takes_keys
  contains -- (__ddpm_chain) $__ddpm_key_chains
end
complete -c ddpm -f
)";

/// A line of fish's: `words` are those of an option, or of a position.
std::string fish_line(const std::string& condition, const std::string& rest, const std::string& words,
                      const std::string& help) {
  std::string line = fmt::format("complete -c ddpm -n {}{}", quoted(condition, "\\'"), rest);
  if (words == kFiles) {
    line += " -F";
  } else if (!words.empty() && words != kNothing) {
    line += " -a " + quoted(words, "\\'");
  }
  return line + (help.empty() ? "" : " -d " + quoted(short_help(help), "\\'")) + "\n";
}

std::string fish_lines(const std::string& chain, const CommandFacts& command) {
  const std::string condition = fmt::format("__ddpm_at \"{}\"", chain);
  std::string lines;
  for (const CommandFacts& below : command.commands) lines += fish_line(condition, "", below.name, below.help);
  for (const OptionFacts& option : command.options) {
    if (option.positional) {
      lines += fish_line(condition, "", completed_to(option), option.help);
    } else if (option.name.starts_with("--")) {
      const std::string rest = " -l " + option.name.substr(2) + (option.is_flag() ? "" : " -r");
      lines += fish_line(condition, rest, option.is_flag() ? "" : completed_to(option), option.help);
    }
  }
  return lines;
}

std::string heading(const char* shell) {
  return fmt::format("# Completes the command lines of ddpm {} in {}; made by: ddpm completion {}\n", base::kVersion,
                     shell, shell);
}

}  // namespace

std::string bash_completion(const CommandFacts& program, const std::vector<KeyFacts>& keys) {
  return heading("bash") + tables_text(tables_of(program, keys)) + kLookUp + kBash;
}

std::string zsh_completion(const CommandFacts& program, const std::vector<KeyFacts>& keys) {
  return "#compdef ddpm\n" + heading("zsh") + tables_text(tables_of(program, keys)) + kLookUp + kZsh;
}

std::string fish_completion(const CommandFacts& program, const std::vector<KeyFacts>& keys) {
  std::string chains = "set -g __ddpm_chains";
  std::string key_chains = "set -g __ddpm_key_chains";
  std::string lines;
  for_each_command(program, "", [&](const std::string& chain, const CommandFacts& command) {
    if (!chain.empty()) chains += " " + quoted(chain, "\\'");
    if (command.takes_config_pairs) key_chains += " " + quoted(chain, "\\'");
    lines += fish_lines(chain, command);
  });
  for (const KeyFacts& key : keys) {
    const std::string words = key.words.empty() ? kFiles : fmt::format("{}", fmt::join(key.words, " "));
    lines += fish_line("__ddpm_takes_keys", " -l " + key.path + " -r", words, key.help);
  }
  return heading("fish") + chains + "\n" + key_chains + "\n" + kFish + lines;
}

}  // namespace ddpm::cli
