// data::prepare::look_at_idx: what is accepted has exactly the bytes of its shape, and each image is those of its
// place.
//
// Byte 0: 1 packs the images with gzip, whose checksum then fits; 2 brings labels. Byte 1: how many bytes of labels
// stand before the images.
#include "data/prepare/idx.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include <zlib.h>

#include "base/error.h"
#include "fuzz/records.h"

namespace {

std::string gzip(std::string_view bytes) {
  z_stream stream = {};
  constexpr int kGzip = 16 + MAX_WBITS;
  ddpm::fuzz::require(deflateInit2(&stream, 1, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib starts");
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  std::string input(bytes);
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ddpm::fuzz::require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib packs");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const bool packs = (data[0] & 1U) != 0;
  const bool has_labels = (data[0] & 2U) != 0;
  const std::string_view rest = ddpm::fuzz::text_of(data + 2, size - 2);
  const size_t split = has_labels ? std::min<size_t>(data[1], rest.size()) : 0;
  const std::string_view plain = rest.substr(split);
  const ddpm::fuzz::MemoryFile labels(rest.substr(0, split));
  const ddpm::fuzz::MemoryFile images(packs ? gzip(plain) : std::string(plain));
  try {
    const auto found =
        ddpm::data::prepare::look_at_idx(images.path(), has_labels ? std::optional(labels.path()) : std::nullopt,
                                         {.max_side = 512, .max_pixels = 1 << 14});
    const bool unpacked_known = packs || !ddpm::data::prepare::PackedFile(images.path()).packed();
    const uint64_t bytes = uint64_t(found.height) * uint64_t(found.width) * uint64_t(found.channels);
    ddpm::fuzz::require(!unpacked_known || found.images.first + bytes * uint64_t(found.count) == plain.size(),
                        "the size is the shape's");
    ddpm::fuzz::read_all(found, [&](int64_t index, const ddpm::data::prepare::Sample& sample) {
      if (!unpacked_known) return;
      const std::string_view own = plain.substr(found.images.first + bytes * uint64_t(index), bytes);
      ddpm::fuzz::require(std::memcmp(own.data(), ddpm::fuzz::bytes_of(sample).pixels.data(), own.size()) == 0,
                          "an image is the bytes of its place");
    });
  } catch (const ddpm::base::DatasetError&) {
  }
  return 0;
}
