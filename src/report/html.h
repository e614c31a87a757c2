// Pieces of HTML. Everything that comes from a file goes through escaped().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddpm::report {

/// `text` as HTML shows it, in an element or in a quoted attribute. What is not UTF-8, and control characters, become
/// U+FFFD.
std::string escaped(std::string_view text);

/// JSON as the content of a <script>: no "<" is left that could end it.
std::string script_safe(std::string_view json);

/// A cell of a table: HTML, or what was escaped().
struct Cell {
  std::string html;
  bool number = false;  ///< aligned to the right
};
Cell text_cell(std::string_view text);
Cell number_cell(std::string_view text);

/// A table in a box that scrolls sideways where it is wider than the screen. The column titles are escaped here.
std::string table(const std::vector<std::string>& titles, const std::vector<std::vector<Cell>>& rows);

/// `content`, which is HTML, in <TAG class="CLASS">.
std::string element(std::string_view tag, std::string_view css_class, std::string_view content);

}  // namespace ddpm::report
