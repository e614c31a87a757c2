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
/// The same of a file that was synced, as the disk or the file server holds it: the kernel is asked to forget its pages
/// first, which it does where the file system lets it.
std::string sha256_on_disk(const std::filesystem::path& path);

}  // namespace ddpm::base
