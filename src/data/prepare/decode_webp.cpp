#include <memory>
#include <new>

#include <webp/decode.h>
#include <webp/demux.h>

#include "base/check.h"
#include "base/error.h"
#include "data/prepare/blend.h"
#include "data/prepare/decode.h"
#include "data/prepare/exif.h"

namespace ddpm::data::prepare {
namespace {

const uint8_t* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());  // NOLINT: libwebp's own type for bytes
}

using Chunks = std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)>;

/// The file as a list of chunks, all of which it holds.
Chunks chunks_of(std::span<const std::byte> bytes) {
  const WebPData data{data_of(bytes), bytes.size()};
  Chunks chunks(WebPDemux(&data), WebPDemuxDelete);
  if (!chunks) throw base::DatasetError("WebP: the file ends early, or its chunks do not fit together");
  return chunks;
}

int read_orientation(const WebPDemuxer* chunks) {
  WebPChunkIterator chunk;
  if (WebPDemuxGetChunk(chunks, "EXIF", 1, &chunk) == 0) return 1;
  std::span<const uint8_t> exif(chunk.chunk.bytes, chunk.chunk.size);
  // Some writers copy the header that EXIF has in JPEG files.
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  if (exif.size() >= kPrefix.size() && std::equal(kPrefix.begin(), kPrefix.end(), exif.begin())) {
    exif = exif.subspan(kPrefix.size());
  }
  const int orientation = exif_orientation(exif);
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

WebPBitstreamFeatures read_header(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(data_of(bytes), bytes.size(), &features) != VP8_STATUS_OK) {
    throw base::DatasetError("WebP: the header is damaged");
  }
  limits.check("WebP", features.width, features.height);
  if (features.has_animation != 0) throw base::DatasetError("WebP: an animation, wanted one picture");
  return features;
}

}  // namespace

Decoded decode_webp(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  const WebPBitstreamFeatures features = read_header(bytes, limits);
  const int orientation = read_orientation(chunks_of(bytes).get());

  WebPDecoderConfig config;
  DDPM_CHECK(WebPInitDecoderConfig(&config) != 0, "libwebp is another version than its headers");
  const bool opaque = features.has_alpha == 0;
  Image image(features.width, features.height, opaque ? 3 : 4);
  config.output.colorspace = opaque ? MODE_RGB : MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {image.pixels.data(), static_cast<int>(image.row_size()), image.pixels.size()};
  const VP8StatusCode status = WebPDecode(data_of(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != VP8_STATUS_OK) {
    throw base::DatasetError(
        "WebP: the image is {}",
        status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED ? "cut short" : "damaged");
  }
  return {opaque ? std::move(image) : laid_over_white(image), orientation};
}

}  // namespace ddpm::data::prepare
