// Whether a person looks at what this process says.
#pragma once

namespace ddpm::base {

/// Whether stderr leads to a terminal: at once, or through the mpirun that started this process, which passes on what
/// its ranks write as it comes. A rank that another host's daemon started, or srun, cannot know, and counts as without
/// one; so does one of an mpirun that puts words of its own before each line (--tag-output and its like).
bool stderr_is_terminal();

}  // namespace ddpm::base
