#include "config/value.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "base/json.h"

namespace ddpm::config {
namespace {

constexpr std::size_t kLongestShownValue = 80;

struct TextOf {
  std::string operator()(std::nullptr_t) const { return "unset"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    std::string text = fmt::format("{}", value);
    if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
    return text;
  }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(const Array& array) const {
    std::string text = "[";
    for (const Value& item : array) {
      if (text.size() > 1) text += ", ";
      text += to_text(item);
    }
    return text + "]";
  }
  std::string operator()(const Table& table) const {
    std::string text = "{";
    for (const auto& [key, item] : table) {
      text += fmt::format("{}{} = {}", text.size() > 1 ? ", " : " ", key, to_text(item));
    }
    return text + " }";
  }
};

}  // namespace

std::string to_text(const Value& value) { return std::visit(TextOf{}, value.data); }

std::string choices_text(const std::vector<std::string>& choices) {
  std::string text;
  for (const std::string& choice : choices) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", choice.empty() ? quoted(choice) : choice);
  }
  return text;
}

std::string to_short_text(const Value& value) {
  std::string text;
  try {
    text = to_text(value);
  } catch (const std::invalid_argument&) {
    return "(bytes that are not UTF-8)";
  }
  if (text.size() <= kLongestShownValue) return text;
  std::size_t end = kLongestShownValue;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // not inside a character
  return text.substr(0, end) + "...";
}

// A JSON string is a TOML basic string, except that TOML wants DEL escaped too.
std::string quoted(const std::string& text) {
  std::string literal;
  try {
    literal = base::Json(text).dump();
  } catch (const base::Json::exception&) {
    throw std::invalid_argument("not UTF-8");
  }
  constexpr char kDelete = 0x7F;
  for (std::size_t at = literal.find(kDelete); at != std::string::npos; at = literal.find(kDelete, at)) {
    literal.replace(at, 1, "\\u007F");
  }
  return literal;
}

bool wants_text(const Entry& entry) {
  return std::holds_alternative<std::string*>(entry.target) ||
         std::holds_alternative<std::optional<std::string>*>(entry.target) ||
         std::holds_alternative<EnumTarget>(entry.target);
}

bool wants_texts(const Entry& entry) {
  return std::holds_alternative<std::vector<std::string>*>(entry.target) ||
         std::holds_alternative<std::vector<WeightedPath>*>(entry.target);
}

std::string place(std::string_view origin, uint32_t line) {
  if (origin == kCommandLine) return " on the command line";
  if (origin.empty()) return "";
  if (line == 0) return fmt::format(" in {}", origin);
  return fmt::format(" in {}:{}", origin, line);
}

}  // namespace ddpm::config
