// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected; RFC 3720 B.4), with the processor's instruction where it has
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddpm::base {

/// CRC-32C of `bytes`; pass an earlier result as `crc` to continue it. crc32c("123456789") = 0xE3069283.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

/// Computes what crc32c() computes, by tables alone. crc32c() calls it on a processor that lacks the CRC-32C
/// instruction.
uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace ddpm::base
