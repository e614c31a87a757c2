// The parts of a page, each as HTML with its heading; "" for a part that has nothing to say.
#pragma once

#include <string>

#include "report/figures.h"

namespace ddpm::report {

std::string state_section(const Figures& figures);
std::string curves_section(const Figures& figures);
std::string pictures_section(const Figures& figures);
std::string evaluation_section(const Figures& figures);
std::string configuration_section(const Figures& figures);
std::string checkpoints_section(const Figures& figures);
std::string use_section(const Figures& figures);
std::string proposal_section(const Figures& figures);
std::string remarks_section(const Figures& figures);

/// A heading with the section's id around `content`.
std::string section(std::string_view id, std::string_view title, std::string_view content);
/// The name of a run above its part of a section, where there are several runs.
std::string run_heading(const Figures& figures, std::size_t run);

}  // namespace ddpm::report
