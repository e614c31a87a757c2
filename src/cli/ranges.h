// Ranges of command-line numbers, checked as integers: what is refused is named with bounds that a person can read.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ddpm::cli {

inline CLI::Range integer_range(int64_t min, int64_t max) { return {min, max}; }

/// Unlike CLI::Range, which compares with its bounds, this refuses a NaN.
inline CLI::Validator number_range(double min, double max) {
  const auto refusal = [min, max](const std::string& text) {
    double value = std::numeric_limits<double>::quiet_NaN();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool number = error == std::errc() && end == text.data() + text.size();
    if (number && value >= min && value <= max) return std::string();
    return fmt::format("{} is not a number from {} to {}", text, min, max);
  };
  return {refusal, fmt::format("FLOAT in [{} - {}]", min, max)};
}

/// Nodes, and ranks of a node.
inline CLI::Range machine_counts() { return integer_range(1, int64_t{1} << 20); }
/// Memory of a rank.
inline CLI::Validator memory_gib_range() { return number_range(1e-3, 1e6); }

/// The seeds that run.seed takes. An unsigned option alone would take -1 for a very large number, and CLI::Range a
/// number beyond all integers for the largest one.
inline CLI::Validator seed_range() {
  const auto refusal = [](const std::string& text) {
    int64_t seed = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (error == std::errc() && end == text.data() + text.size() && seed >= 0) return std::string();
    return fmt::format("{} is not an integer from 0 to {}", text, std::numeric_limits<int64_t>::max());
  };
  return {refusal, "SEED"};
}

}  // namespace ddpm::cli
