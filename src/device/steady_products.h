// Matrix products whose bits do not depend on where their rows lie.
#pragma once

namespace ddpm::device {

/// On x86 processors that are not Intel's, MKL's float32 products of equal rows differ in their last bits with the
/// place of a row and the address of its memory, unless the variable MKL_CBWR forbids it: so it is set here, where
/// nobody has, to AUTO,STRICT, which took no time on a Zen 4. MKL reads it at its first product; no other thread may
/// run yet.
void keep_products_steady();

}  // namespace ddpm::device
