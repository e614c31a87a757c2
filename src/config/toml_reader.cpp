// TOML text to plain values. The only file that includes toml++.
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/error.h"
#include "base/file_system.h"
#include "config/resolve.h"
#include "config/toml_value.h"

namespace ddpm::config {
namespace {

constexpr uint64_t kMaxBytes = 1U << 20U;
constexpr int kMaxDots =
    16;  // a.b.c in one key: toml++ destroys what it parsed recursively, without a limit of its own
constexpr int kMaxDepth = 8;  // how deeply tables and arrays may nest; the deepest known key needs four

Value from_node(const toml::node& node, const std::string& origin, int depth);

Table from_table(const toml::table& table, const std::string& origin, int depth) {
  Table result;
  for (const auto& [key, node] : table) result.emplace_back(std::string(key.str()), from_node(node, origin, depth + 1));
  return result;
}

std::string place_of(const std::string& origin, const toml::source_position& at) {
  return fmt::format("{}:{}:{}", origin, at.line, at.column);
}

Value from_node(const toml::node& node, const std::string& origin, int depth) {
  const toml::source_position& begin = node.source().begin;
  const auto line = static_cast<uint32_t>(begin.line);
  if (depth > kMaxDepth) {
    throw base::ConfigError("{}: nested more than {} levels deep", place_of(origin, begin), kMaxDepth);
  }
  if (const auto* table = node.as_table()) return {from_table(*table, origin, depth), line};
  if (const auto* array = node.as_array()) {
    Array result;
    for (const toml::node& item : *array) result.push_back(from_node(item, origin, depth + 1));
    return {std::move(result), line};
  }
  if (const auto* boolean = node.as_boolean()) return {boolean->get(), line};
  if (const auto* integer = node.as_integer()) return {integer->get(), line};
  if (const auto* number = node.as_floating_point()) return {number->get(), line};
  if (const auto* text = node.as_string()) return {text->get(), line};
  throw base::ConfigError("{}: dates and times are not used here; write it as a string, in quotes",
                          place_of(origin, begin));
}

// Walks over TOML text, outside strings and comments, and refuses keys of absurdly many parts before they are parsed.
class KeyScanner {
 public:
  KeyScanner(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  void run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      if (at_ < text_.size()) step(text_[at_]);
      ++at_;
    }
  }

 private:
  void step(char c) {
    if (c == '\n') begin_line();
    if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) dots_ = 0;
    if (c == '.' && ++dots_ > kMaxDots) {
      throw base::ConfigError("{}:{}:{}: a key of more than {} parts", origin_, line_, at_ + 1 - line_begin_,
                              kMaxDots + 1);
    }
  }

  /// Begins the line after the line break at at_.
  void begin_line() {
    ++line_;
    line_begin_ = at_ + 1;
  }

  void skip_string(char quote) {
    const std::string triple(3, quote);
    const bool many_lines = text_.substr(at_, 3) == triple;
    const std::string_view end = many_lines ? std::string_view(triple) : std::string_view(triple).substr(0, 1);
    for (at_ += end.size(); at_ < text_.size(); ++at_) {
      if (text_.substr(at_, end.size()) == end) break;
      if (text_[at_] == '\n' && !many_lines) return;  // unclosed: the parser will say so
      if (text_[at_] == '\n') begin_line();
      if (text_[at_] == '\\' && quote == '"' && text_.substr(at_ + 1, 1) != "\n") ++at_;
    }
    at_ += end.size();
    // Up to two quotes may stand before the closing three, and belong to the text.
    for (int i = 0; many_lines && i < 2 && at_ < text_.size() && text_[at_] == quote; ++i) ++at_;
  }

  std::string_view text_;
  const std::string& origin_;
  std::size_t at_ = 0;
  int dots_ = 0;
  int line_ = 1;
  std::size_t line_begin_ = 0;
};

}  // namespace

Table parse_toml(std::string_view text, const std::string& origin) {
  if (text.size() > kMaxBytes) {
    throw base::ConfigError("{}: {} bytes of configuration; wanted: at most {}", origin, text.size(), kMaxBytes);
  }
  KeyScanner(text, origin).run();
  try {
    return from_table(toml::parse(text, std::string_view(origin)), origin, 0);
  } catch (const toml::parse_error& error) {
    throw base::ConfigError("{}: {}", place_of(origin, error.source().begin), error.description());
  }
}

Table read_toml(const std::filesystem::path& path) {
  std::string text;
  try {
    text = base::posix_file_system()->read(path, kMaxBytes);
  } catch (const base::OutputError& error) {
    throw base::ConfigError("{}", error.what());
  }
  return parse_toml(text, path.string());
}

std::optional<Value> parse_toml_value(std::string_view text) {
  constexpr const char* kOrigin = "value";
  try {
    Table table = parse_toml(fmt::format("value = {}", text), kOrigin);
    // Text with line breaks could hold further keys: then it is not one value.
    if (table.size() != 1 || table.front().first != "value") return std::nullopt;
    return std::move(table.front().second);
  } catch (const base::ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace ddpm::config
