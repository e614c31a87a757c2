#include "cli/man_pages.h"

#include <fmt/format.h>

#include "base/version.h"

namespace ddpm::cli {
namespace {

/// `text` as troff sets it: a backslash and a hyphen stand for themselves, and no line is taken for a request.
std::string troff(std::string_view text) {
  std::string set;
  bool begins = true;
  for (const char character : text) {
    if (begins && (character == '.' || character == '\'')) set += "\\&";
    begins = character == '\n';
    if (character == '\\') {
      set += "\\e";
    } else if (character == '-') {
      set += "\\-";
    } else {
      set += character;
    }
  }
  return set;
}

std::string bold(std::string_view text) { return "\\fB" + troff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + troff(text) + "\\fR"; }

std::string head(const std::string& title, const std::string& name, const std::string& help) {
  return fmt::format(".TH \"{}\" 1 \"\" \"ddpm {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n", troff(title),
                     base::kVersion, troff(name), troff(help));
}

std::string upper(std::string text) {
  for (char& character : text) {
    if (character >= 'a' && character <= 'z') character = static_cast<char>(character - 'a' + 'A');
  }
  return text;
}

/// "ddpm data create SOURCE... --output TEXT [OPTIONS]"
std::string synopsis(const std::string& chain, const CommandFacts& command) {
  std::string line = ".PP\n" + bold(chain);
  if (!command.commands.empty()) return line + " " + italic("COMMAND") + "\n";
  for (const OptionFacts& option : command.options) {
    if (!option.positional) continue;
    const std::string word = italic(option.name) + (option.many ? " ..." : "");
    line += option.required ? " " + word : " [" + word + "]";
  }
  for (const OptionFacts& option : command.options) {
    if (!option.positional && option.required) line += " " + bold(option.name) + " " + italic("VALUE");
  }
  line += " [" + italic("OPTION") + " ...]";
  if (command.takes_config_pairs) line += " [" + bold("--section.key") + " " + italic("VALUE") + " ...]";
  return line + "\n";
}

std::string value_text(const OptionFacts& option) {
  if (option.is_flag() || option.positional) return "";
  if (option.words.empty()) return " " + italic(option.value.substr(0, option.value.find_first_of(": ")));
  std::string words;
  for (const std::string& word : option.words) words += (words.empty() ? "" : "|") + word;
  return " " + italic(words);
}

std::string options_text(const CommandFacts& command) {
  std::string text;
  for (const OptionFacts& option : command.options) {
    const std::string name = option.positional ? italic(option.name) : bold(option.name);
    std::string help = option.help;
    if (option.required) help += " (required)";
    if (!option.usual.empty()) help += " (" + option.usual + " if not given)";
    text += fmt::format(".TP\n{}{}\n{}\n", name, value_text(option), troff(help));
  }
  return text;
}

/// A footer keeps its lines.
std::string footer_text(const CommandFacts& command) {
  return command.footer.empty() ? "" : ".PP\n.nf\n" + troff(command.footer) + "\n.fi\n";
}

void describe(const std::string& chain, const CommandFacts& command, std::string& text) {
  if (!command.commands.empty()) {
    for (const CommandFacts& below : command.commands) describe(chain + " " + below.name, below, text);
    return;
  }
  text += ".SS " + troff("\"" + chain + "\"") + "\n" + troff(command.help) + ".\n" + synopsis(chain, command) +
          options_text(command) + footer_text(command);
}

std::string page_of(const CommandFacts& command) {
  const std::string chain = "ddpm " + command.name;
  std::string page = head(upper("ddpm-" + command.name), "ddpm-" + command.name, command.help);
  page += ".SH SYNOPSIS\n" + synopsis(chain, command) + ".SH DESCRIPTION\n";
  if (command.commands.empty()) {
    page += troff(command.help) + ".\n" + options_text(command) + footer_text(command);
  } else {
    describe(chain, command, page);
  }
  return page + ".SH SEE ALSO\n.BR ddpm (1)\n";
}

std::string program_page(const CommandFacts& program) {
  std::string page = head("DDPM", "ddpm", program.help) + ".SH SYNOPSIS\n" + synopsis("ddpm", program);
  page += ".SH COMMANDS\n";
  for (const CommandFacts& command : program.commands) {
    page += fmt::format(".TP\n.BR {} (1)\n{}\n", troff("ddpm-" + command.name), troff(command.help));
  }
  page += ".SH OPTIONS\n" + options_text(program) + ".SH EXIT STATUS\n.nf\n" + troff(program.footer) + "\n.fi\n";
  page +=
      ".SH FILES\n.TP\n.I share/doc/ddpm/docs\nThe documentation, below the folder that the program is installed in.\n";
  return page;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> man_pages(const CommandFacts& program) {
  std::vector<std::pair<std::string, std::string>> pages = {{"ddpm.1", program_page(program)}};
  for (const CommandFacts& command : program.commands) {
    pages.emplace_back("ddpm-" + command.name + ".1", page_of(command));
  }
  return pages;
}

}  // namespace ddpm::cli
