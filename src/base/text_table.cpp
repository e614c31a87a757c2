#include "base/text_table.h"

#include <algorithm>
#include <utility>

namespace ddpm::base {
namespace {

/// Bytes of UTF-8 that begin a character.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

TextTable::TextTable(std::vector<Align> alignment, std::size_t gap, std::string indent)
    : alignment_(std::move(alignment)), gap_(gap), indent_(std::move(indent)) {}

void TextTable::add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    if (row.size() > widths.size()) widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  return widths;
}

std::string TextTable::text() const {
  const std::vector<std::size_t> wide = widths();
  std::string text;
  for (const auto& row : rows_) {
    std::string line = indent_;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(wide[i] - columns_of(row[i]), ' ');
      const bool left = i < alignment_.size() && alignment_[i] == Align::left;
      line += (i == 0 ? "" : std::string(gap_, ' ')) + (left ? row[i] + padding : padding + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace ddpm::base
