#include "cli/completion.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/named.h"
#include "cli/completion_scripts.h"
#include "cli/man_pages.h"
#include "cli/output.h"
#include "comm/collectives.h"
#include "train/config.h"

namespace ddpm::cli {
namespace {

enum class Shell : uint8_t { bash, zsh, fish };
constexpr auto names_of(Shell /*shell*/) { return std::to_array<std::string_view>({"bash", "zsh", "fish"}); }

struct CompletionArguments {
  Shell shell = Shell::bash;
  std::filesystem::path man_pages;
};

std::vector<KeyFacts> keys_of_configuration() {
  std::vector<KeyFacts> keys;
  const train::Configuration configuration;
  for (const config::Entry& entry : configuration.schema().entries()) {
    const bool boolean =
        std::holds_alternative<bool*>(entry.target) || std::holds_alternative<std::optional<bool>*>(entry.target);
    keys.push_back(
        {entry.path(), entry.doc, boolean ? std::vector<std::string>{"true", "false"} : entry.options.choices});
  }
  return keys;
}

std::string script_for(Shell shell, const CommandFacts& program) {
  const std::vector<KeyFacts> keys = keys_of_configuration();
  switch (shell) {
    case Shell::bash:
      return bash_completion(program, keys);
    case Shell::zsh:
      return zsh_completion(program, keys);
    case Shell::fish:
      return fish_completion(program, keys);
  }
  return {};
}

void write_pages(const std::filesystem::path& folder, const CommandFacts& program, Context& context) {
  comm::do_on_root(context.session.world(), [&] {
    if (!context.files.exists(folder)) context.files.create_directories(folder);
    for (const auto& [name, text] : man_pages(program)) base::write_atomically(context.files, folder / name, text);
  });
}

}  // namespace

void add_completion_command(const Subcommand& program, Command& command) {
  auto options = std::make_shared<CompletionArguments>();
  const Subcommand completion =
      program.add_subcommand("completion", "A script by which a shell completes this program's command lines");
  const Option shell = completion.add("SHELL", &options->shell, "The shell");
  completion.add("--man-pages", &options->man_pages, "Writes the manual's pages into this folder instead").hidden();
  completion.footer(
      "bash: source <(ddpm completion bash), in ~/.bashrc\n"
      "zsh:  ddpm completion zsh > FOLDER/_ddpm, in a folder of fpath\n"
      "fish: ddpm completion fish > ~/.config/fish/completions/ddpm.fish");
  completion.on_chosen([options, shell, program, &command] {
    if (options->man_pages.empty()) shell.expect_given();
    command.run = [options, program](Context& context) {
      const CommandFacts facts = program.facts();
      if (!options->man_pages.empty()) return write_pages(options->man_pages, facts, context);
      print(context, script_for(options->shell, facts));
    };
  });
}

}  // namespace ddpm::cli
