// What the numbers of a run say to a person who wonders whether to stop it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "report/measures.h"

namespace ddpm::report {

enum class Tone : uint8_t { good, note, watch, bad };
constexpr auto names_of(Tone /*type*/) { return std::to_array<std::string_view>({"good", "note", "watch", "bad"}); }

/// A whole sentence or two, and how it sounds.
struct Finding {
  Tone tone = Tone::note;
  std::string about = {};  ///< "Loss", "Checkpoint": one or two words
  std::string text = {};
};

struct Judgement {
  Finding counsel = {};                ///< whether to stop; `about` is the counsel in a few words
  std::vector<Finding> findings = {};  ///< what it rests on, the most important first
};

Judgement judge(const Measures& measures);

}  // namespace ddpm::report
