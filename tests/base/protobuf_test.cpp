// Bytes are those of the examples in protobuf's own description of its encoding, and of the rules there.
#include "base/protobuf.h"

#include <array>

#include <gmock/gmock.h>

#include "base/error.h"
#include "interop/network_writer.h"
#include "support/temporary_folder.h"

namespace ddpm::base {
namespace {

std::string written(const ProtoMessage& message) {
  const test::TemporaryFolder folder;
  const auto files = posix_file_system();
  const auto file = files->create_exclusive(folder.path() / "message");
  message.write(*file);
  file->close();
  std::string bytes = files->read(folder.path() / "message", 1U << 20U);
  EXPECT_EQ(bytes.size(), message.size());
  EXPECT_EQ(bytes, message.bytes());
  return bytes;
}

TEST(ProtoMessage, WritesTheBytesOfTheDescription) {
  ProtoMessage inner;
  inner.add(1, int64_t{150});
  EXPECT_EQ(written(inner), "\x08\x96\x01");
  ProtoMessage message;
  message.add(2, std::string_view("testing"));
  EXPECT_EQ(written(message), "\x12\x07testing");
  message.add(3, inner);
  EXPECT_EQ(written(message), "\x12\x07testing\x1a\x03\x08\x96\x01");
}

TEST(ProtoMessage, WritesNumbersOfAnySize) {
  ProtoMessage message;
  message.add(20, int64_t{-1});  // field 20: a tag of two bytes; ten bytes of seven bits
  message.add(2, 1.0F);
  EXPECT_EQ(written(message), std::string("\xa0\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x15\x00\x00\x80\x3f", 17));
  ProtoMessage eight;
  eight.add(1, 1.0);
  EXPECT_EQ(written(eight), std::string("\x09\x00\x00\x00\x00\x00\x00\xf0\x3f", 9));
}

TEST(ProtoMessage, BorrowsBytesWhereTheyStand) {
  constexpr std::array kBytes = {std::byte{1}, std::byte{2}};
  ProtoMessage inner;
  inner.add_bytes(9, kBytes);
  inner.add(1, int64_t{3});
  inner.add_bytes(9, {});
  ProtoMessage message;
  message.add(7, inner);
  message.add(1, int64_t{4});
  EXPECT_EQ(written(message), std::string("\x3a\x08\x4a\x02\x01\x02\x08\x03\x4a\x00\x08\x04", 12));
}

TEST(OnnxSize, IsThatOfAMessageOfProtobuf) {
  constexpr uint64_t kMost = (uint64_t{1} << 31U) - 1;
  EXPECT_NO_THROW(expect_onnx_size("model.onnx", 0));
  EXPECT_NO_THROW(expect_onnx_size("model.onnx", kMost));
  for (const uint64_t bytes : {kMost + 1, kMost * 2 + 5, uint64_t{1} << 40U}) {
    try {
      expect_onnx_size("model.onnx", bytes);
      ADD_FAILURE() << bytes << " bytes were accepted";
    } catch (const base::OutputError& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("model.onnx: the model takes " + std::to_string(bytes) + " bytes"), std::string::npos)
          << said;
      EXPECT_NE(said.find("2147483647 at most; wanted: --dtype bf16"), std::string::npos) << said;
    }
  }
}

}  // namespace
}  // namespace ddpm::base
