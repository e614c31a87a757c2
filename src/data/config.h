// Keys of [data].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/schema.h"
#include "data/dataset.h"
#include "data/order.h"
#include "data/standardize.h"

namespace ddpm::data {

struct DataConfig {
  std::vector<config::WeightedPath> train;
  std::optional<std::string> validation;
  std::optional<std::string> stage;
  bool hold = false;
  std::string images = "/images";
  std::string labels = "/labels";
  std::string condition = {};
  std::string static_values = {};
  std::string parameters = {};
  std::string mask = {};
  std::vector<std::string> variables = {};
  std::vector<std::string> axes = {};
  std::vector<std::string> sample_axes = {};
  int64_t lead = 0;
  Missing missing = Missing::refuse;
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
  int64_t chunk_cache_mib = 1024;
};

void describe(config::Section& section, DataConfig& c);

/// The training set, or the sets that are mixed. None throws ConfigError.
std::vector<Dataset::Source> train_sources(const DataConfig& c);
/// Refuses names of arrays that cannot be, and what is said of foreign files alone beside bare ones: throws
/// ConfigError.
void validate(const DataConfig& c, KeyNames by = KeyNames::configuration);
/// `threads`: of this rank, that unpack chunks.
DatasetOptions dataset_options(const DataConfig& c, int threads = 1);
ImageOrderOptions order_options(const DataConfig& c);

}  // namespace ddpm::data
