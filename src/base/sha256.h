// SHA-256 (FIPS 180-4), by OpenSSL.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ddpm::base {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  /// Lower-case hexadecimal digest of everything so far; the object may not be used afterwards.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::string_view text);
/// Digest of a file's bytes, read in pieces. Throws OutputError when it cannot be read.
std::string sha256_file(const std::filesystem::path& path);
/// Returns the digest of a synced file as the disk or the file server holds it. The kernel is first asked to drop the
/// file's cached pages, which it does where the file system allows it.
std::string sha256_on_disk(const std::filesystem::path& path);

}  // namespace ddpm::base
