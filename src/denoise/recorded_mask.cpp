#include "denoise/recorded_mask.h"

#include <cstddef>

#include "base/base64.h"
#include "base/error.h"
#include "base/json_fields.h"
#include "data/field.h"

namespace ddpm::denoise {
namespace {

constexpr std::size_t kBits = 8;  // of a byte

std::size_t bytes_for(std::size_t pixels) { return (pixels + kBits - 1) / kBits; }

}  // namespace

RecordedMask RecordedMask::parse(const base::Json& json, const std::string& place) {
  const base::JsonFields fields(json, place, {"sides", "bits"}, base::JsonFields::Others::ignored);
  RecordedMask mask{.sides = fields.integers("sides")};
  const bool known = mask.sides.size() == 2 || mask.sides.size() == 3;
  std::size_t pixels = known ? 1 : 0;
  for (const int64_t side : mask.sides) {
    if (side < 1 || side > data::kMaxSide) pixels = 0;
    pixels *= static_cast<std::size_t>(side);
  }
  const auto bytes = base::from_base64(fields.text("bits"));
  if (pixels == 0 || !bytes || bytes->size() != bytes_for(pixels)) {
    throw base::OutputError("{}: its bits are not those of a mask of its sides; wanted: a bit for each pixel", place);
  }
  mask.valid.reserve(pixels);
  for (std::size_t i = 0; i < pixels; ++i) {
    mask.valid.push_back(((std::to_integer<unsigned>((*bytes)[i / kBits]) >> (i % kBits)) & 1U) != 0U);
  }
  return mask;
}

base::Json RecordedMask::to_json() const {
  std::vector<std::byte> bytes(bytes_for(valid.size()));
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i]) bytes[i / kBits] |= std::byte{1} << (i % kBits);
  }
  return {{"sides", sides}, {"bits", base::to_base64(bytes)}};
}

}  // namespace ddpm::denoise
