// The one line on a terminal that is drawn anew in place, such as a progress bar. A message takes it away before it is
// printed; the next drawing brings it back. Safe to call from any thread.
#pragma once

#include <cstdio>

namespace ddpm::base {

/// To the line's begin, and erase to its end.
inline constexpr const char* kClearLine = "\r\x1b[K";

/// The line has been drawn at the end of `out`.
void note_status_line(std::FILE* out);
/// Whether the line was at the end of `out`. The caller then erases or ends it: it counts as gone.
bool take_status_line(std::FILE* out);

}  // namespace ddpm::base
