// Reads the golden files that golden/make_golden.py wrote, and makes test data.
#pragma once

#include <cmath>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"

namespace ddpm::test {

inline base::Json read_golden(const std::string& name) {
  std::ifstream file(std::string(DDPM_TEST_DATA) + "/../optim/golden/" + name);
  return base::parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
}

inline std::vector<float> floats(const base::Json& numbers) { return numbers.get<std::vector<float>>(); }

inline std::vector<float> random_floats(std::size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

/// Expects each element within `relative` of the wanted one, or within `absolute`.
inline void expect_close(const std::vector<float>& seen, const std::vector<float>& wanted, double relative,
                         double absolute) {
  ASSERT_EQ(seen.size(), wanted.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_NEAR(seen[i], wanted[i], absolute + relative * std::abs(wanted[i])) << "element " << i;
  }
}

/// The message of the error of type E that `work` throws, or "" when it throws none.
template <typename E, typename Work>
std::string message_of(Work&& work) {
  try {
    work();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace ddpm::test
