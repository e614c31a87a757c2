// The table of block types: what it says of a type is what its builder builds, and every type has golden data.
#include "nn/blocks/block_table.h"

#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "nn/golden_case.h"
#include "nn/unet2d.h"

namespace ddpm::nn::test {
namespace {

/// Two levels of which the upper one has the given blocks; K blocks do not mix with others.
UNet2DConfig with_blocks(const std::string& down, const std::string& up) {
  UNet2DConfig c;
  c.block_out_channels = {32, 32};
  c.norm_num_groups = 4;
  c.down_block_types = {down, "DownBlock2D"};
  c.up_block_types = {"UpBlock2D", up};
  if (down.starts_with('K') || up.starts_with('K')) {
    c.down_block_types = {"KDownBlock2D", "KDownBlock2D"};
    c.up_block_types = {"KUpBlock2D", "KUpBlock2D"};
  }
  return c;
}

bool has_attention(const UNet2D& unet, const std::string& prefix) {
  return std::ranges::any_of(unet.parameters(), [&](const Parameter* p) {
    return p->name.starts_with(prefix) && p->name.find(".attentions.") != std::string::npos;
  });
}

TEST(BlockTable, SaysWhetherTheBlocksOfATypeHaveAttention) {
  for (const std::string& name : block_names(Resampling::down)) {
    EXPECT_EQ(block_type(name).attention, has_attention(UNet2D(with_blocks(name, "UpBlock2D")), "down_blocks.0."))
        << name;
  }
  for (const std::string& name : block_names(Resampling::up)) {
    EXPECT_EQ(block_type(name).attention, has_attention(UNet2D(with_blocks("DownBlock2D", name)), "up_blocks.1."))
        << name;
  }
  for (const std::string& name : block_names(Resampling::none)) {
    UNet2DConfig c = with_blocks("DownBlock2D", "UpBlock2D");
    c.mid_block_type = name;
    EXPECT_EQ(block_type(name).attention, has_attention(UNet2D(c), "mid_block.")) << name;
  }
}

TEST(BlockTable, HasEachNameOnceAndAllOfThemAreAWay) {
  std::set<std::string> all;
  std::size_t count = 0;
  for (const Resampling way : {Resampling::down, Resampling::none, Resampling::up}) {
    for (const std::string& name : block_names(way)) {
      EXPECT_EQ(block_type(name).resampling, way) << name;
      all.insert(name);
      ++count;
    }
  }
  EXPECT_EQ(all.size(), count);
  EXPECT_GE(count, 14U);
}

// Predictions, gradients and operations of the golden cases are diffusers' own: a type without one would be unchecked.
TEST(BlockTable, HasNoTypeWithoutGoldenData) {
  std::set<std::string> seen;
  for (const auto& file : golden_files()) {
    const UNet2DConfig c = config_from_json(read_golden(file).config);
    seen.insert(c.down_block_types.begin(), c.down_block_types.end());
    seen.insert(c.mid_block_type);
    seen.insert(c.up_block_types.begin(), c.up_block_types.end());
  }
  for (const Resampling way : {Resampling::down, Resampling::none, Resampling::up}) {
    for (const std::string& name : block_names(way)) EXPECT_TRUE(seen.contains(name)) << name;
  }
}

TEST(BlockTable, NamesAllItsTypesWhenOneIsUnknown) {
  try {
    (void)block_type("CrossAttnDownBlock2D");
    ADD_FAILURE() << "accepted";
  } catch (const base::ConfigError& error) {
    const std::string said = error.what();
    EXPECT_TRUE(said.starts_with("block type \"CrossAttnDownBlock2D\": wanted one of \"DownBlock2D\", ")) << said;
    for (const Resampling way : {Resampling::down, Resampling::none, Resampling::up}) {
      for (const std::string& name : block_names(way)) EXPECT_NE(said.find('"' + name + '"'), said.npos) << name;
    }
  }
}

}  // namespace
}  // namespace ddpm::nn::test
