// Vectors: FIPS 180-4 examples, as NIST publishes them.
#include "base/sha256.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::base {
namespace {

constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kMillionA = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), kAbc);
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')), kMillionA);
}

TEST(Sha256, PiecesGiveTheSameDigest) {
  Sha256 hash;
  hash.update("a");
  hash.update("");
  Sha256 moved = std::move(hash);
  moved.update("bc");
  EXPECT_EQ(moved.hex(), kAbc);
}

TEST(Sha256, FileOfSeveralPieces) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "ddpm_sha256_test.bin";
  std::ofstream(path) << std::string(1000000, 'a') << std::string(2000000, 'b');
  EXPECT_EQ(sha256_file(path), sha256_hex(std::string(1000000, 'a') + std::string(2000000, 'b')));
  std::filesystem::remove(path);
}

TEST(Sha256, MissingFileIsNamed) {
  try {
    sha256_file("/nonexistent/shard");
    FAIL() << "a digest of nothing";
  } catch (const OutputError& error) {
    EXPECT_STREQ(error.what(), "/nonexistent/shard: cannot open: No such file or directory");
  }
}

}  // namespace
}  // namespace ddpm::base
