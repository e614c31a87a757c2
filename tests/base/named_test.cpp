#include "base/named.h"

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

enum class Fruit : uint8_t { apple, pear };
constexpr auto names_of(Fruit /*type*/) { return std::to_array<std::string_view>({"apple", "a pear"}); }
enum class Nameless : uint8_t { one };

TEST(Named, EachValueHasItsName) {
  static_assert(name_of(Fruit::pear) == "a pear");
  static_assert(find_named<Fruit>("apple") == Fruit::apple);
  static_assert(!Named<Nameless> && !Named<int>);
  EXPECT_EQ(find_named<Fruit>("Apple"), std::nullopt);
  EXPECT_EQ(find_named<Fruit>(""), std::nullopt);
  EXPECT_EQ(all_names<Fruit>(), (std::vector<std::string>{"apple", "a pear"}));
}

}  // namespace
}  // namespace ddpm::base
