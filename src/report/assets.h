// The files that every page holds, compiled into the program: cmake/embed_texts.cmake makes their source.
#pragma once

#include <string_view>

namespace ddpm::report {

std::string_view page_css();
std::string_view page_js();
std::string_view uplot_css();
std::string_view uplot_js();
std::string_view uplot_license();

}  // namespace ddpm::report
