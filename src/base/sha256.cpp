#include "base/sha256.h"

#include <array>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_error.h"
#include "base/pulse.h"

namespace ddpm::base {
namespace {

constexpr std::size_t kPieceBytes = 1U << 20U;

class ReadOnlyFile {
 public:
  explicit ReadOnlyFile(const std::filesystem::path& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // no wait for a pipe
    if (descriptor_ < 0) throw_file_error(path_, "open", errno);
  }
  ~ReadOnlyFile() { ::close(descriptor_); }
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  /// Those that were written back already. A hint: there are file systems without a cache.
  void forget_pages() const { (void)::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED); }
  /// Bytes read into `piece`; 0 at the end of the file.
  std::size_t read(std::span<std::byte> piece) {
    for (;;) {
      const ssize_t count = ::read(descriptor_, piece.data(), piece.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) throw_file_error(path_, "read", errno);
    }
  }

 private:
  const std::filesystem::path& path_;
  int descriptor_;
};

void require(int status, const char* what) {
  if (status != 1) throw InternalError("SHA-256: {} failed", what);
}

std::string digest_of(ReadOnlyFile& file) {
  Sha256 hash;
  std::vector<std::byte> piece(kPieceBytes);
  while (const std::size_t count = file.read(piece)) {
    hash.update(std::span(piece).first(count));
    pulse();
  }
  return hash.hex();
}

}  // namespace

struct Sha256::Context {
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> handle{EVP_MD_CTX_new()};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (!context_->handle) throw InternalError("SHA-256: EVP_MD_CTX_new failed");
  require(EVP_DigestInit_ex(context_->handle.get(), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_->handle.get(), bytes.data(), bytes.size()), "EVP_DigestUpdate");
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  require(EVP_DigestFinal_ex(context_->handle.get(), digest.data(), nullptr), "EVP_DigestFinal_ex");
  std::string text;
  text.reserve(2 * digest.size());
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

std::string sha256_file(const std::filesystem::path& path) {
  ReadOnlyFile file(path);
  return digest_of(file);
}

std::string sha256_on_disk(const std::filesystem::path& path) {
  ReadOnlyFile file(path);
  file.forget_pages();
  return digest_of(file);
}

}  // namespace ddpm::base
