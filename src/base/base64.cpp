#include "base/base64.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace ddpm::base {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30U;

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
  DDPM_CHECK(bytes.size() <= kMostBytes, "{} bytes as base64", bytes.size());
  std::vector<unsigned char> text((bytes.size() + 2) / 3 * 4 + 1);  // OpenSSL ends it with a zero
  EVP_EncodeBlock(text.data(), reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  return {text.begin(), text.end() - 1};
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  if (text.size() % 4 != 0 || text.size() / 4 * 3 > kMostBytes) return std::nullopt;
  std::vector<std::byte> bytes(text.size() / 4 * 3);
  const int count = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                    reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (count != static_cast<int>(bytes.size())) return std::nullopt;
  bytes.resize(bytes.size() - (text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0));
  // OpenSSL passes over blanks at both ends, and takes padding anywhere for zeros.
  if (to_base64(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace ddpm::base
