#include "base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace ddpm::base {
namespace {

static_assert(std::endian::native == std::endian::little, "words of eight bytes are taken from memory as they lie");

constexpr uint32_t kPolynomial = 0x82F63B78U;  // 0x1EDC6F41 with its bits reversed
constexpr std::size_t kSlices = 8;

// tables[k][b]: the checksum of byte b followed by k zero bytes, so that eight bytes are looked up independently.
constexpr std::array<std::array<uint32_t, 256>, kSlices> make_tables() {
  std::array<std::array<uint32_t, 256>, kSlices> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < kSlices; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const uint32_t shorter = tables[k - 1][byte];
      tables[k][byte] = (shorter >> 8U) ^ tables[0][shorter & 0xFFU];
    }
  }
  return tables;
}

constexpr auto kTables = make_tables();

uint64_t load_word(const std::byte* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// The processor's instructions for eight bytes and for one, where it has them.
#if defined(__x86_64__)
#define DDPM_CRC32C_TARGET "sse4.2"
bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }
[[gnu::target(DDPM_CRC32C_TARGET)]] inline uint64_t add_word(uint64_t state, uint64_t word) {
  return _mm_crc32_u64(state, word);
}
[[gnu::target(DDPM_CRC32C_TARGET)]] inline uint32_t add_byte(uint32_t state, uint8_t byte) {
  return _mm_crc32_u8(state, byte);
}
#elif defined(__aarch64__) && defined(__linux__)
#define DDPM_CRC32C_TARGET "+crc"
bool has_instruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
[[gnu::target(DDPM_CRC32C_TARGET)]] inline uint64_t add_word(uint64_t state, uint64_t word) {
  return __crc32cd(static_cast<uint32_t>(state), word);
}
[[gnu::target(DDPM_CRC32C_TARGET)]] inline uint32_t add_byte(uint32_t state, uint8_t byte) {
  return __crc32cb(state, byte);
}
#endif

#if defined(DDPM_CRC32C_TARGET)
[[gnu::target(DDPM_CRC32C_TARGET)]] uint32_t crc32c_by_instruction(std::span<const std::byte> bytes, uint32_t crc) {
  uint64_t state = ~crc;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) state = add_word(state, load_word(at));
  auto narrow = static_cast<uint32_t>(state);
  for (; left > 0; --left, ++at) narrow = add_byte(narrow, static_cast<uint8_t>(*at));
  return ~narrow;
}
#endif

}  // namespace

uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t crc) {
  uint32_t state = ~crc;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kSlices; left -= kSlices, at += kSlices) {
    const uint64_t word = load_word(at) ^ state;
    state = 0;
    for (std::size_t k = 0; k < kSlices; ++k) state ^= kTables[kSlices - 1 - k][(word >> (8 * k)) & 0xFFU];
  }
  for (; left > 0; --left, ++at) state = (state >> 8U) ^ kTables[0][(state ^ static_cast<uint32_t>(*at)) & 0xFFU];
  return ~state;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
#if defined(DDPM_CRC32C_TARGET)
  if (has_instruction()) return crc32c_by_instruction(bytes, crc);
#endif
  return crc32c_by_table(bytes, crc);
}

}  // namespace ddpm::base
