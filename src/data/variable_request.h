// Variables of a foreign file as they are asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddpm::data {

/// "NAME", or "NAME AXIS=VALUE ...": the place along AXIS whose coordinate is VALUE, or has this number where the axis
/// has no coordinates. A name with spaces, commas or = stands in single quotes: "'total cloud' level=500".
struct VariableRequest {
  struct Choice {
    std::string axis;
    double value = 0.0;
    friend bool operator==(const Choice&, const Choice&) = default;
  };
  std::string name;
  std::vector<Choice> choices = {};
  std::string text;  ///< as it was asked for, with single spaces between its words
  friend bool operator==(const VariableRequest&, const VariableRequest&) = default;
};

/// The place of the comma behind the first of several items, or the end of the text. Commas in quotes separate
/// nothing.
std::size_t end_of_item(std::string_view text);
/// Throws ConfigError for another text; `key` names it there.
VariableRequest parse_request(std::string_view text, std::string_view key);
/// Several, separated by commas; "": none.
std::vector<VariableRequest> parse_requests(std::string_view text, std::string_view key);

}  // namespace ddpm::data
