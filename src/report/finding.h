// A sentence or two about a run, and how it sounds.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddpm::report {

enum class Tone : uint8_t { good, note, watch, bad };
constexpr auto names_of(Tone /*type*/) { return std::to_array<std::string_view>({"good", "note", "watch", "bad"}); }

struct Finding {
  Tone tone = Tone::note;
  std::string about = {};  ///< "Loss", "Checkpoint": one or two words
  std::string text = {};   ///< whole sentences
};

}  // namespace ddpm::report
