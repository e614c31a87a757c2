#include "report/html.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace ddpm::report {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

/// Bytes of the UTF-8 character that `text` begins with; 0 where it is none, or one that a page may not hold.
std::size_t character_size(std::string_view text) {
  const bool space = text.front() == '\n' || text.front() == '\t';
  return base::begins_with_control(text) && !space ? 0 : base::utf8_size(text);
}

std::string_view entity(char character) {
  switch (character) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string html;
  html.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size == 0) {
      html += kReplacement;
    } else if (const std::string_view named = entity(text.front()); !named.empty()) {
      html += named;
    } else {
      html += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return html;
}

std::string script_safe(std::string_view json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char character : json) {
    if (character == '<') {
      safe += "\\u003c";
    } else {
      safe += character;
    }
  }
  return safe;
}

Cell text_cell(std::string_view text) { return {escaped(text), false}; }
Cell number_cell(std::string_view text) { return {escaped(text), true}; }

std::string element(std::string_view tag, std::string_view css_class, std::string_view content) {
  if (css_class.empty()) return fmt::format("<{0}>{1}</{0}>\n", tag, content);
  return fmt::format("<{0} class=\"{1}\">{2}</{0}>\n", tag, css_class, content);
}

std::string table(const std::vector<std::string>& titles, const std::vector<std::vector<Cell>>& rows) {
  std::string head;
  for (std::size_t i = 0; i < titles.size(); ++i) {
    const bool number = !rows.empty() && i < rows.front().size() && rows.front()[i].number;
    head += fmt::format("<th scope=\"col\"{}>{}</th>", number ? " class=\"n\"" : "", escaped(titles[i]));
  }
  std::string body;
  for (const auto& row : rows) {
    body += "<tr>";
    for (const Cell& cell : row) body += fmt::format("<td{}>{}</td>", cell.number ? " class=\"n\"" : "", cell.html);
    body += "</tr>\n";
  }
  return element("div", "wide",
                 fmt::format("<table><thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table>", head, body));
}

}  // namespace ddpm::report
