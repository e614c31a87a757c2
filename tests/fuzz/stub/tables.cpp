// What tables name that parsers do not need: the builders of blocks. Parsers ask the tables for names, and build
// nothing.
#include <cstdlib>

#include "nn/blocks/block_table.h"

namespace ddpm::nn {

void build_down_block(UnitBuilder& /*units*/, const BlockType& /*type*/, const BlockPlace& /*place*/) { std::abort(); }
void build_k_down_block(UnitBuilder& /*units*/, const BlockType& /*type*/, const BlockPlace& /*place*/) {
  std::abort();
}
void build_k_up_block(UnitBuilder& /*units*/, const BlockType& /*type*/, const BlockPlace& /*place*/) { std::abort(); }
void build_mid_block(UnitBuilder& /*units*/, const BlockType& /*type*/, const BlockPlace& /*place*/) { std::abort(); }
void build_no_block(UnitBuilder& /*units*/, const BlockType& /*type*/, const BlockPlace& /*place*/) { std::abort(); }
void build_skip_down_block(UnitBuilder& /*units*/, const BlockType& /*type*/, const BlockPlace& /*place*/) {
  std::abort();
}
void build_skip_up_block(UnitBuilder& /*units*/, const BlockType& /*type*/, const BlockPlace& /*place*/) {
  std::abort();
}
void build_up_block(UnitBuilder& /*units*/, const BlockType& /*type*/, const BlockPlace& /*place*/) { std::abort(); }

}  // namespace ddpm::nn
