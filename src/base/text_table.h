// Tables for people: every column is as wide as its widest cell, so that columns never run together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddpm::base {

enum class Align : uint8_t { left, right };

class TextTable {
 public:
  /// `alignment` of the first columns; the others are aligned to the right. Between columns stand `gap` spaces.
  explicit TextTable(std::vector<Align> alignment = {}, std::size_t gap = 1, std::string indent = {});

  /// A row may have fewer cells than others. A row without cells is an empty line.
  void add(std::vector<std::string> cells);

  /// One line per row, each with its end. Cells are UTF-8; a character counts as one column.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::vector<Align> alignment_;
  std::size_t gap_;
  std::string indent_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ddpm::base
