// The Python library safetensors reads what we write, and we read what it writes.
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "support/temporary_folder.h"

namespace ddpm::checkpoint {
namespace {

using base::DType;

/// Runs safetensors_peer.py with a verb and a file; true when it ends well.
bool peer(const std::string& verb, const base::Path& path) {
  const std::string command =
      std::string(DDPM_PEERS_PYTHON) + " " + DDPM_TEST_DATA + "/safetensors_peer.py " + verb + " " + path.string();
  return std::system(command.c_str()) == 0;
}

// These tensors are also written by safetensors_peer.py.
class SafetensorsPeer : public testing::Test {
 protected:
  SafetensorsPeer() {
    std::iota(weight_.begin(), weight_.end(), 0.5F);
    std::iota(counts_.begin(), counts_.end(), -2);
    std::iota(bytes_.begin(), bytes_.end(), uint8_t{250});
  }
  [[nodiscard]] std::vector<SafetensorsTensor> tensors() const {
    return {{"bytes", DType::u8, {5}, std::as_bytes(std::span(bytes_))},
            {"counts", DType::i64, {3, 1}, std::as_bytes(std::span(counts_))},
            {"empty", DType::f32, {0}, {}},
            {"half", DType::f16, {2}, std::as_bytes(std::span(half_))},
            {"scalar", DType::f64, {}, std::as_bytes(std::span(scalar_))},
            {"unit.weight", DType::f32, {2, 3, 4}, std::as_bytes(std::span(weight_))}};
  }

  test::TemporaryFolder folder_;
  base::Path path_ = folder_.path() / "model.safetensors";
  std::vector<float> weight_ = std::vector<float>(24);
  std::vector<int64_t> counts_ = std::vector<int64_t>(3);
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(5);
  std::vector<double> scalar_ = {1e300};
  std::vector<uint16_t> half_ = {0x3C00, 0xC000};  // 1 and -2
};

TEST_F(SafetensorsPeer, ReadsWhatWeWrite) {
  const auto files = base::posix_file_system();
  const auto file = files->create_exclusive(path_);
  write_safetensors(*file, tensors(), {{"format", "pt"}, {"note", "\"quoted\" \xc3\xa9"}});
  file->close();
  EXPECT_TRUE(peer("check", path_));
}

TEST_F(SafetensorsPeer, WritesWhatWeRead) {
  ASSERT_TRUE(peer("write", path_));
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.header().metadata.at("note"), "\"quoted\" \xc3\xa9");
  const std::vector<SafetensorsTensor> wanted = tensors();
  ASSERT_EQ(file.header().entries.size(), wanted.size());
  for (const SafetensorsTensor& tensor : wanted) {
    const SafetensorsEntry* entry = file.header().find(tensor.name);
    ASSERT_NE(entry, nullptr) << tensor.name;
    EXPECT_EQ(entry->dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(entry->shape, tensor.shape) << tensor.name;
    std::vector<std::byte> read(entry->size());
    file.read(*entry, read);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), tensor.bytes.begin(), tensor.bytes.end())) << tensor.name;
  }
}

}  // namespace
}  // namespace ddpm::checkpoint
