#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "interop/network_writer.h"

namespace ddpm::interop {
namespace {

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
}  // namespace ddpm::interop
