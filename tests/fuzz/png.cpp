// data::prepare::decode_picture on PNG files, whose chunks get fitting checksums: without them nearly nothing would
// pass.
#include <vector>

#include <zlib.h>

#include "fuzz/image.h"

namespace {

uint32_t big_endian(const uint8_t* at) {
  return uint32_t{at[0]} << 24U | uint32_t{at[1]} << 16U | uint32_t{at[2]} << 8U | at[3];
}

/// A chunk is its length, four letters, the data, and a CRC-32 of letters and data.
void mend_checksums(std::vector<uint8_t>& file) {
  constexpr size_t kSignature = 8;
  for (size_t at = kSignature; at + 12 <= file.size();) {
    const size_t length = big_endian(&file[at]);
    if (length > file.size() - at - 12) return;
    const auto crc = static_cast<uint32_t>(crc32(0, &file[at + 4], static_cast<uInt>(length + 4)));
    for (unsigned i = 0; i < 4; ++i) file[at + 8 + length + i] = static_cast<uint8_t>(crc >> (24U - 8U * i));
    at += 12 + length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  mend_checksums(file);
  ddpm::fuzz::decode(file);
  return 0;
}
