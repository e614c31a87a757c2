#include "device/steady_products.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace ddpm::device {
namespace {

constexpr const char* kName = "MKL_CBWR";

TEST(SteadyProducts, WhatSomebodyHasSetStays) {
  setenv(kName, "COMPATIBLE", /*overwrite=*/1);
  keep_products_steady();
  EXPECT_STREQ(std::getenv(kName), "COMPATIBLE");
}

TEST(SteadyProducts, AreAskedForWhereMklDoesNotHaveThemByItself) {
  std::ifstream file("/proc/cpuinfo");
  const std::string cpuinfo(std::istreambuf_iterator<char>(file), {});
#ifdef __x86_64__
  const bool expected = cpuinfo.find("GenuineIntel") == std::string::npos;
#else
  const bool expected = false;  // an emulator may show its own processor there
#endif
  unsetenv(kName);
  keep_products_steady();
  const char* const seen = std::getenv(kName);
  EXPECT_EQ(seen == nullptr ? "" : std::string(seen), expected ? "AUTO,STRICT" : "");
}

}  // namespace
}  // namespace ddpm::device
