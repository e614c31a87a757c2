// What is wrong with a run, whether somebody trains it or not.
#pragma once

#include <optional>

#include "report/finding.h"
#include "report/measures.h"

namespace ddpm::report {

/// Validations without an improvement after which a loss that rises, or is far above the best, counts.
inline constexpr int64_t kWithoutImprovement = 3;

/// Whether the last logged losses, three at least, are not finite.
bool has_no_finite_loss(const Measures& m);
/// Whether so many of the last steps were skipped that something is wrong with the gradients.
bool many_skipped(const Measures& m);
/// Whether the training loss rises by so much that the slope's 95 % interval, were it twice as wide, left out 0: of
/// flat losses, one look in 40 finds the interval itself above 0.
bool surely_rises(const Measures& m);
/// Whether the validation loss rises while the training loss falls away below it.
bool overfits(const Measures& m);
/// Whether the last validations lie far above the best one.
bool validation_is_far(const Measures& m);

/// The worst of what is wrong; `about` is a counsel for a run that trains.
std::optional<Finding> concern_of(const Measures& m);

}  // namespace ddpm::report
