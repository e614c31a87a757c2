// data::prepare::decode_picture on JPEG files.
#include "fuzz/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ddpm::fuzz::decode({data, size});
  return 0;
}
