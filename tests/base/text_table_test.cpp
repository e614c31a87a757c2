#include "base/text_table.h"

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table({Align::left}, 2);
  table.add({"name", "µs"});
  table.add({"a", "1"});
  table.add({});
  table.add({"longer", "1048576", "yes"});
  EXPECT_EQ(table.text(),
            "name         µs\n"
            "a             1\n"
            "\n"
            "longer  1048576  yes\n");
}

TEST(TextTable, LinesAreIndentedAndDoNotEndInSpaces) {
  TextTable table({Align::left, Align::left}, 1, "  ");
  table.add({"a", "b"});
  table.add({"long", "longer"});
  EXPECT_EQ(table.text(), "  a    b\n  long longer\n");
}

}  // namespace
}  // namespace ddpm::base
