// Distribution functions that intervals and verdicts need: Student's t, and the normal one's inverse.
//
// By the continued fraction of the incomplete beta function (DLMF 8.17.22), to about 1e-10.
#pragma once

namespace ddpm::base {

/// P(|T| >= |t|) of Student's t with `degrees` of freedom (above 0, infinity too): a two-sided p-value.
double student_p_value(double t, double degrees);
/// The t above 0 with P(|T| <= t) = `level`, for a level in (0, 1).
double student_quantile(double level, double degrees);

/// The place where the normal distribution function has the value `p`, 0 < p < 1, to 1e-14.
double normal_quantile(double p);

}  // namespace ddpm::base
