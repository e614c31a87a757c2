// The doctor's answer, as text for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "doctor/finding.h"
#include "doctor/survey.h"

namespace ddpm::doctor {

/// Tables of what was measured, then the findings, in lines of at most 100 columns. `colour`: with the escapes of a
/// terminal around the severities.
std::string text_of(const Survey& survey, const std::vector<Finding>& findings, bool colour);
/// The findings alone, and how many there are of each severity.
std::string findings_text(const std::vector<Finding>& findings, bool colour);

/// Everything: `findings`, `exit_code`, and the facts that they rest on. Of more than kMostLinks links the slowest.
base::OrderedJson json_of(const Survey& survey, const std::vector<Finding>& findings);
inline constexpr std::size_t kMostLinks = 2048;

/// "2 problems, 1 warning"; "no problems"
std::string summary(const std::vector<Finding>& findings);

}  // namespace ddpm::doctor
