// Sentences in lines of a terminal's width.
#pragma once

#include <cstddef>
#include <string>

namespace ddpm::base {

/// `text` broken at blanks into lines that end before column `width`, with a line end after the last. The first line
/// begins in column `first`, where the caller has already written; the others are indented by `indent` blanks.
std::string wrapped(const std::string& text, std::size_t width, std::size_t first, std::size_t indent);

}  // namespace ddpm::base
