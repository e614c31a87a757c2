#include "cli/config_arguments.h"

namespace ddpm::cli {

bool is_config_pair(const std::string& word) {
  return word.starts_with("--") && word.substr(0, word.find('=')).find('.') != std::string::npos;
}

CLI::Option* add_config_arguments(CLI::App& app, const std::shared_ptr<ConfigArguments>& arguments, bool required,
                                  const std::string& help) {
  app.allow_extras();
  return app.add_option("CONFIG", arguments->files, help)->required(required);
}

std::vector<std::string> config_pairs(const CLI::App& app) {
  std::vector<std::string> words = app.remaining();
  for (const std::string& word : words) {
    if (!is_config_pair(word)) throw CLI::ExtrasError(words);
  }
  return words;
}

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

}  // namespace ddpm::cli
