// The report as one HTML file that asks nobody for anything: style, script, pictures and numbers are in it.
#pragma once

#include <string>
#include <string_view>

#include "report/figures.h"

namespace ddpm::report {

/// The page.
std::string to_page(const Figures& figures);

/// Whether `text`, a file's beginning, is that of such a page, which another may replace.
bool is_page(std::string_view text);
/// Bytes of a file that is_page() looks at.
inline constexpr std::size_t kPageHeadBytes = 64;

}  // namespace ddpm::report
