#include "device/steady_products.h"

#include <cstdlib>

namespace ddpm::device {

void keep_products_steady() {
#ifdef __x86_64__
  if (__builtin_cpu_is("intel") == 0) setenv("MKL_CBWR", "AUTO,STRICT", /*overwrite=*/0);
#endif
}

}  // namespace ddpm::device
