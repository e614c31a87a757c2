// Mean, standard deviation and range per channel, gathered image by image and merged shard by shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/json.h"
#include "data/format.h"

namespace ddpm::data {

/// What is wrong with a set whose masks leave out everything.
inline constexpr const char* kNothingValid =
    "no mask says of any pixel that it is valid, so there is nothing to learn from";

/// What is known of one channel's values. uint8 keeps integer sums, which are exact in any order. float32 keeps mean
/// and sum of squared deviations in double (Chan, Golub, LeVeque: "Updating formulae and a pairwise algorithm for
/// computing sample variances", 1979), merged image by image and then in shard order, so that the ranks do not matter.
struct ChannelSums {
  uint64_t count = 0;
  uint64_t sum = 0;          ///< uint8 only
  uint64_t sum_squares = 0;  ///< uint8 only
  double mean = 0.0;         ///< float32 only
  double deviations = 0.0;   ///< float32 only: sum of (x - mean)²
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  friend bool operator==(const ChannelSums&, const ChannelSums&) = default;
};

class Statistics {
 public:
  explicit Statistics(const ImageFormat& format);

  /// Adds one stored image [height, width, channels]; with a mask [height, width] its valid pixels only.
  void add(std::span<const std::byte> image, std::span<const std::byte> valid = {});
  /// Adds what another one, of the same format, has seen.
  void merge(const Statistics& other);
  /// Whether there is a valid pixel among all that were added.
  [[nodiscard]] bool empty() const { return channels_.front().count == 0; }
  [[nodiscard]] std::vector<ChannelStatistics> result() const;

  [[nodiscard]] base::OrderedJson to_json() const;
  /// The reverse of to_json; throws DatasetError.
  static Statistics from_json(const ImageFormat& format, const base::Json& json);
  friend bool operator==(const Statistics&, const Statistics&) = default;

 private:
  ImageFormat format_;
  std::vector<ChannelSums> channels_;
};

}  // namespace ddpm::data
