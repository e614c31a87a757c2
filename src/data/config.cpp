#include "data/config.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/named.h"
#include "data/variable_request.h"

namespace ddpm::data {

namespace {

constexpr const char* kVariables = "variables";
constexpr const char* kAxes = "axes";
constexpr const char* kSampleAxes = "sample_axes";

using config::Identity;

void describe_sets(config::Section& section, DataConfig& c) {
  section
      .key("train", c.train,
           "Training set: a dataset folder or one HDF5 or NetCDF-4 file, or files by a pattern such as "
           "\"era5_*.nc\"; or a list of these, folders also as { path = \"PATH\", weight = 2.0 }: images of weight 2 "
           "are seen twice as often as those of weight 1",
           {.freed_by = "continue_with_other"})
      .key("validation", c.validation,
           "Validation set: a dataset folder or one file, or files by a pattern, of images like those of train",
           {.identity = Identity::may_change})
      .key("stage", c.stage,
           "Folder on storage of each host to which the sets of train are copied first, and from where they are read; "
           "unset: they are read where they are",
           {.identity = Identity::may_change})
      .key("hold", c.hold,
           "Hold the images in the memory of each node, once for all its ranks: they are read at the start, and not "
           "again in each epoch",
           {.identity = Identity::may_change});
}

/// Arrays of bare files.
void describe_arrays(config::Section& section, DataConfig& c) {
  section
      .key("images", c.reading.images, "Name of the image array in a bare .h5 file",
           {.freed_by = "continue_with_other"})
      .key("labels", c.reading.labels,
           "Name of the label array in a bare .h5 file; beside data.variables that of a variable of integers along the "
           "sample axes, which is read only where another name than this one is set. Empty: labels of no set are read")
      .key("condition", c.reading.condition,
           "Name of the array in a bare .h5 file that images are drawn given, of their size or coarser by a whole "
           "number; empty: none",
           {.freed_by = "continue_with_other"})
      .key(
          "static", c.reading.static_values,
          "Name of the array in a bare .h5 file that is given with every image, [height, width, channels]; empty: none",
          {.freed_by = "continue_with_other"})
      .key("parameters", c.reading.parameters,
           "Name of the array in a bare .h5 file with numbers given with each image, [n, p]; empty: none",
           {.freed_by = "continue_with_other"})
      .key("mask", c.reading.mask,
           "Name of the array in a bare .h5 file that is 1 where images are valid and 0 elsewhere, [n, height, width] "
           "or [height, width]; empty: none",
           {.freed_by = "continue_with_other"});
}

/// What of foreign files makes an image.
void describe_variables(config::Section& section, DataConfig& c) {
  section
      .key("variables", c.reading.variables,
           "Variables of HDF5 and NetCDF-4 files of which the images are composed, channel by channel: \"NAME\", or "
           "\"NAME AXIS=VALUE\" for one place along an axis. condition, static, parameters and mask then "
           "name variables, too, several separated by commas, and labels one; images is not read",
           {.freed_by = "continue_with_other"})
      .key("axes", c.reading.axes,
           "Names of the axes of these images, height before width, of volumes with the depth before; empty: the last "
           "two, or those of space in files of The Well",
           {.freed_by = "continue_with_other"})
      .key("sample_axes", c.reading.sample_axes,
           "Names of the axes along which these images follow each other, the last one fastest; empty: the first axis, "
           "or trajectory and time in files of The Well. Each place along any other axis is a channel",
           {.freed_by = "continue_with_other"})
      .key(
          "lead", c.reading.lead,
          "Train on pairs that are so many places apart along the last of sample_axes: the image is the later one, its "
          "condition the variables of the earlier one, then those of data.condition; 0: no pairs",
          {.min = 0, .max = 1 << 30, .freed_by = "continue_with_other"})
      .key("missing", c.reading.missing,
           "Images with values that these files mark as missing: an error (refuse), or a mask of each image "
           "leaves those pixels out (mask)",
           {.freed_by = "continue_with_other"});
}

void describe_values(config::Section& section, DataConfig& c) {
  section
      .key(
          "normalize", c.normalize,
          "Float32 values of a bare .h5 file: as they are stored (none), or less their mean and divided by their "
          "deviation, variable by variable (standardize); a mean and a deviation of each grid point is what `ddpm data "
          "create --transform grid` makes")
      .key("continue_with_other", c.continue_with_other,
           "Let a run go on with other images than it was trained on so far, such as a set that was appended to: "
           "weights, moments, averages and counters stay, and the order begins a new epoch",
           {.identity = Identity::may_change});
}

/// What of an image the model sees, and how it is turned.
void describe_views(config::Section& section, DataConfig& c) {
  section
      .key("patch", c.patch,
           "Train on windows of this size at random places of the images: height and width, of volumes depth first; "
           "empty: whole images",
           {.min = 1, .max = kMaxSide})
      .key("positions", c.positions,
           "Give the model where each pixel lies: sin and cos of 2 pi row / height and of 2 pi column / width")
      .key("horizontal_flip", c.horizontal_flip,
           "Mirror each training image, and all that is given with it, left and right with probability 1/2")
      .key("vertical_flip", c.vertical_flip,
           "Mirror each training image, and all that is given with it, top and bottom with probability 1/2")
      .key("quarter_turns", c.quarter_turns,
           "Turn each training image, and all that is given with it, by 0, 90, 180 or 270 degrees, all equally often")
      .key("periodic_shift", c.periodic_shift,
           "Shift each training image, and all that is given with it, around the axes along which model.padding is "
           "periodic, by any number of pixels equally often")
      .key("vectors", c.vectors,
           "Variables that are a vector's components along the width and the height, \"u, v\" for each vector; a minus "
           "stands before one that points against growing columns or rows: mirrored and turned images turn them too");
}

void describe_order(config::Section& section, DataConfig& c) {
  section
      .key("shuffle", c.shuffle,
           "Order of the images in an epoch: blocks of neighbours in random order, shuffled within pools (block); any "
           "image anywhere (full); as stored (none)")
      .key("block_images", c.block_images, "Neighbouring images that the block shuffle keeps in one pool", {.min = 1})
      .key("pool_images", c.pool_images, "Images that the block shuffle mixes with one another, in whole blocks",
           {.min = 1})
      .key("prefetch", c.prefetch,
           "Micro-batches read ahead by a background thread, at least (more where 32 MiB hold more); 0: none",
           {.min = 0, .max = 1024, .identity = Identity::may_change})
      .key("chunk_cache_mib", c.reading.chunk_cache_mib,
           "Memory of a host for unpacked chunks of an .h5 file that hold more than was wanted, which its ranks share, "
           "in MiB; it is taken when it is needed. 0: each rank keeps those of a band of images",
           {.min = 0, .max = 1 << 20, .identity = Identity::may_change});
}

}  // namespace

void describe(config::Section& section, DataConfig& c) {
  describe_sets(section, c);
  describe_arrays(section, c);
  describe_variables(section, c);
  describe_values(section, c);
  describe_views(section, c);
  describe_order(section, c);
}

std::vector<Dataset::Source> train_sources(const DataConfig& c) {
  std::vector<Dataset::Source> sources;
  for (const config::WeightedPath& set : c.train) {
    if (!set.path.empty()) sources.push_back({.path = set.path, .weight = set.weight});
  }
  if (sources.empty() || sources.size() < c.train.size()) {
    throw base::ConfigError("data.train is not set: a dataset folder or one .h5 file is wanted");
  }
  return sources;
}

namespace {

void expect_no_foreign_keys(const DatasetOptions& c) {
  const std::pair<const char*, bool> keys[] = {{"axes", !c.axes.empty()},
                                               {"sample_axes", !c.sample_axes.empty()},
                                               {"lead", c.lead != 0},
                                               {"missing", c.missing != Missing::refuse}};
  for (const auto& [key, is_set] : keys) {
    if (!is_set) continue;
    throw base::ConfigError("{} is set, but {} is not: the variables of the images are wanted", c.key(key),
                            c.key(kVariables));
  }
}

void expect_different(const std::vector<std::string>& names, const std::string& key) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (name.empty()) throw base::ConfigError("{} holds an empty name", key);
    if (!seen.insert(name).second) throw base::ConfigError("{} names \"{}\" twice", key, name);
  }
}

/// Keys that describe variables of a foreign file.
void validate_foreign(const DatasetOptions& c) {
  std::vector<std::string> variables;
  for (const std::string& text : c.variables) variables.push_back(parse_request(text, c.key(kVariables)).text);
  expect_different(variables, c.key(kVariables));
  expect_different(c.axes, c.key(kAxes));
  expect_different(c.sample_axes, c.key(kSampleAxes));
  for (const auto& [key, list] : {std::pair("condition", &c.condition), std::pair("static", &c.static_values),
                                  std::pair("parameters", &c.parameters), std::pair("mask", &c.mask)}) {
    static_cast<void>(parse_requests(*list, c.key(key)));
  }
  if (!c.axes.empty() && c.axes.size() != 2 && c.axes.size() != 3) {
    throw base::ConfigError("{} has {} names; wanted: height and width, of volumes with the depth before", c.key(kAxes),
                            c.axes.size());
  }
  for (const std::string& axis : c.axes) {
    if (std::ranges::count(c.sample_axes, axis) == 0) continue;
    throw base::ConfigError("{} and {} both name \"{}\"", c.key(kAxes), c.key(kSampleAxes), axis);
  }
  if (c.images != DatasetOptions{}.images) {
    throw base::ConfigError("{} is not for {}, of which the images are composed", c.key("images"), c.key(kVariables));
  }
  if (!c.labels.empty()) static_cast<void>(parse_request(c.labels, c.key("labels")));
  if (c.missing == Missing::mask && !c.mask.empty()) {
    throw base::ConfigError("{} beside {}; one of the two is wanted", key_text(c.said_by, "mask", c.mask),
                            key_text(c.said_by, "missing", base::name_of(c.missing)));
  }
}

}  // namespace

void validate(const DataConfig& c) {
  if (c.stage && c.stage->empty()) {
    throw base::ConfigError("data.stage = \"\": a folder on storage of each host is wanted, or no such key");
  }
  if (c.validation && c.validation->empty()) {
    throw base::ConfigError("data.validation = \"\": a dataset is wanted, or no such key");
  }
  validate(c.reading);
}

void validate(const DatasetOptions& c) {
  if (!c.variables.empty()) return validate_foreign(c);
  expect_no_foreign_keys(c);
  const std::pair<const char*, const std::string&> keys[] = {
      {"condition", c.condition}, {"static", c.static_values}, {"parameters", c.parameters}, {"mask", c.mask}};
  std::map<std::string, const char*> taken = {{c.images, "images"}};
  if (!c.labels.empty()) taken.emplace(c.labels, "labels");
  for (const auto& [key, name] : keys) {
    if (name.empty()) continue;
    if (name.front() != '/' || name.size() < 2) {
      throw base::ConfigError("{}: the absolute name of an array in the file is wanted, such as \"/{}\"",
                              key_text(c.said_by, key, name), key);
    }
    const auto [other, is_new] = taken.emplace(name, key);
    if (!is_new) {
      throw base::ConfigError("{}: {} names the same array, another one is wanted", key_text(c.said_by, key, name),
                              c.key(other->second));
    }
  }
}

DatasetOptions dataset_options(const DataConfig& c, int threads) {
  DatasetOptions options = c.reading;
  options.threads = threads;
  return options;
}

ImageOrderOptions order_options(const DataConfig& c) {
  return {.shuffle = c.shuffle, .block_images = c.block_images, .pool_images = c.pool_images};
}

}  // namespace ddpm::data
