#include "base/dtype.h"

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

TEST(DType, SizesAndSafetensorsNames) {
  struct Row {
    DType dtype;
    std::size_t size;
    std::string_view name;
  };
  for (const Row& row :
       {Row{DType::u8, 1, "U8"}, Row{DType::i32, 4, "I32"}, Row{DType::i64, 8, "I64"}, Row{DType::f16, 2, "F16"},
        Row{DType::bf16, 2, "BF16"}, Row{DType::f32, 4, "F32"}, Row{DType::f64, 8, "F64"}}) {
    EXPECT_EQ(size_of(row.dtype), row.size) << row.name;
    EXPECT_EQ(safetensors_name(row.dtype), row.name);
  }
}

}  // namespace
}  // namespace ddpm::base
