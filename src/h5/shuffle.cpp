#include "h5/shuffle.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace ddpm::h5 {

namespace {

/// Byte k of element i lies at k · n + i.
template <std::size_t kBytes>
void unshuffle(const std::byte* __restrict in, std::size_t n, std::byte* __restrict out) {
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < kBytes; ++k) out[i * kBytes + k] = in[k * n + i];
  }
}

/// Sixteen bytes of a row.
using Lane [[gnu::vector_size(16)]] = uint64_t;

/// Turns the bits of 8 rows that begin n bytes apart: bit i of a byte of row b becomes bit b of that byte of row i.
/// Only the first `bytes` of each row, 16 at most.
inline void turn_bits_of(const std::byte* in, std::size_t n, std::size_t bytes, std::byte* out) {
  std::array<Lane, 8> rows{};
  for (std::size_t b = 0; b < 8; ++b) std::memcpy(&rows[b], in + b * n, bytes);
  const auto swap = [&rows](std::size_t upper, std::size_t apart, uint64_t mask) {
    const Lane differing = (rows[upper] >> apart ^ rows[upper + apart]) & (Lane{} + mask);
    rows[upper + apart] ^= differing;
    rows[upper] ^= differing << apart;
  };
  for (std::size_t i = 0; i < 4; ++i) swap(i, 4, 0x0f0f0f0f0f0f0f0fU);
  for (std::size_t i = 0; i < 4; ++i) swap(i / 2 * 4 + i % 2, 2, 0x3333333333333333U);
  for (std::size_t i = 0; i < 4; ++i) swap(i * 2, 1, 0x5555555555555555U);
  for (std::size_t i = 0; i < 8; ++i) std::memcpy(out + i * n, &rows[i], bytes);
}

/// Turns the bits of rows of n bytes.
void turn_bits(const std::byte* in, std::size_t n, std::byte* out) {
  constexpr std::size_t kLane = sizeof(Lane);
  std::size_t done = 0;
  for (; done + kLane <= n; done += kLane) turn_bits_of(in + done, n, kLane, out + done);
  if (done < n) turn_bits_of(in + done, n, n - done, out + done);
}

}  // namespace

void unshuffle(std::span<const std::byte> data, std::size_t element_bytes, std::span<std::byte> out) {
  const std::size_t n = data.size() / element_bytes;
  switch (element_bytes) {
    case 2:
      unshuffle<2>(data.data(), n, out.data());
      break;
    case 4:
      unshuffle<4>(data.data(), n, out.data());
      break;
    case 8:
      unshuffle<8>(data.data(), n, out.data());
      break;
    default:
      for (std::size_t k = 0; k < element_bytes; ++k) {
        for (std::size_t i = 0; i < n; ++i) out[i * element_bytes + k] = data[k * n + i];
      }
  }
  std::ranges::copy(data.subspan(n * element_bytes),
                    out.begin() + static_cast<std::ptrdiff_t>(n * element_bytes));  // stored as they are
}

void BitUnshuffler::undo(std::span<const std::byte> data, std::size_t element_bytes, std::span<std::byte> out) {
  const std::size_t n = data.size() / element_bytes;
  turned_.resize(n);
  bytes_.resize(data.size());
  for (std::size_t k = 0; k < element_bytes; ++k) {
    turn_bits(data.data() + k * n, n / 8, turned_.data());
    unshuffle<8>(turned_.data(), n / 8, bytes_.data() + k * n);
  }
  unshuffle(bytes_, element_bytes, out);
}

}  // namespace ddpm::h5
