// The one thing wanted from EXIF: how the camera was held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddpm::data::prepare {

/// Orientation 1 to 8 from a TIFF structure ("II*\0" or "MM\0*" first, as in a PNG's eXIf chunk or after the "Exif\0\0"
/// of a JPEG's APP1 marker): tag 0x0112 of the first directory. 1 where it is absent or the structure is broken.
int exif_orientation(std::span<const uint8_t> tiff);

}  // namespace ddpm::data::prepare
