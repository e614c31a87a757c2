// Keys of [data].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/schema.h"
#include "data/dataset.h"
#include "data/dataset_options.h"
#include "data/order.h"
#include "data/standardize.h"

namespace ddpm::data {

struct DataConfig {
  std::vector<config::WeightedPath> train;
  std::optional<std::string> validation;
  std::optional<std::string> stage;
  bool hold = false;
  DatasetOptions reading = {.chunk_cache_mib = 1024};
  Normalize normalize = Normalize::none;
  bool continue_with_other = false;
  std::vector<int64_t> patch = {};
  bool positions = false;
  bool horizontal_flip = false;
  bool vertical_flip = false;
  bool quarter_turns = false;
  bool periodic_shift = false;
  std::vector<std::string> vectors = {};
  Shuffle shuffle = Shuffle::block;
  int64_t block_images = 128;
  int64_t pool_images = 4096;
  int64_t prefetch = 2;
};

void describe(config::Section& section, DataConfig& c);

/// The training set, or the sets that are mixed. None throws ConfigError.
std::vector<Dataset::Source> train_sources(const DataConfig& c);
/// Refuses names of arrays that cannot be, and what is said of foreign files alone beside bare ones: throws
/// ConfigError.
void validate(const DatasetOptions& c);
/// Refuses what the options' validate() refuses, and what is said of other folders.
void validate(const DataConfig& c);
/// `threads`: of this rank, that unpack chunks.
DatasetOptions dataset_options(const DataConfig& c, int threads = 1);
ImageOrderOptions order_options(const DataConfig& c);

}  // namespace ddpm::data
