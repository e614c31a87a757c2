#include "data/config.h"

#include <map>
#include <utility>

#include "base/error.h"

namespace ddpm::data {

void describe(config::Section& section, DataConfig& c) {
  using config::Identity;
  section
      .key("train", c.train,
           "Training set: a dataset folder or one .h5 file; or a list of folders, each as \"PATH\" or { path = "
           "\"PATH\", weight = "
           "2.0 }: images of weight 2 are seen twice as often as those of weight 1",
           {.freed_by = "continue_with_other"})
      .key("validation", c.validation,
           "Validation set: a dataset folder or one .h5 file, of images like those of train",
           {.identity = Identity::may_change})
      .key("stage", c.stage,
           "Folder on storage of each host to which the sets of train are copied first, and from where they are read; "
           "unset: they are read where they are",
           {.identity = Identity::may_change})
      .key("images", c.images, "Name of the image array in a bare .h5 file", {.freed_by = "continue_with_other"})
      .key("labels", c.labels, "Name of the label array in a bare .h5 file; empty: labels are not read, of any set")
      .key("condition", c.condition,
           "Name of the array in a bare .h5 file that images are drawn given, of their size or coarser by a whole "
           "number; empty: none")
      .key(
          "static", c.static_values,
          "Name of the array in a bare .h5 file that is given with every image, [height, width, channels]; empty: none")
      .key("parameters", c.parameters,
           "Name of the array in a bare .h5 file with numbers given with each image, [n, p]; empty: none")
      .key("mask", c.mask,
           "Name of the array in a bare .h5 file that is 1 where images are valid and 0 elsewhere, [n, height, width] "
           "or [height, width]; empty: none")
      .key("normalize", c.normalize,
           "Float32 values of a bare .h5 file: as they are stored (none), or less their mean and divided by their "
           "deviation, variable by variable (standardize)")
      .key("continue_with_other", c.continue_with_other,
           "Let a run go on with other images than it was trained on so far, such as a set that was appended to: "
           "weights, moments, averages and counters stay, and the order begins a new epoch",
           {.identity = Identity::may_change})
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
           "stands before one that points against growing columns or rows: mirrored and turned images turn them too")
      .key("shuffle", c.shuffle,
           "Order of the images in an epoch: blocks of neighbours in random order, shuffled within pools (block); any "
           "image anywhere (full); as stored (none)")
      .key("block_images", c.block_images, "Neighbouring images that the block shuffle keeps in one pool", {.min = 1})
      .key("pool_images", c.pool_images, "Images that the block shuffle mixes with one another, in whole blocks",
           {.min = 1})
      .key("prefetch", c.prefetch,
           "Micro-batches read ahead by a background thread, at least (more where 32 MiB hold more); 0: none",
           {.min = 0, .max = 1024, .identity = Identity::may_change});
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

void validate(const DataConfig& c) {
  const std::pair<const char*, const std::string&> keys[] = {
      {"condition", c.condition}, {"static", c.static_values}, {"parameters", c.parameters}, {"mask", c.mask}};
  std::map<std::string, const char*> taken = {{c.images, "images"}};
  if (!c.labels.empty()) taken.emplace(c.labels, "labels");
  for (const auto& [key, name] : keys) {
    if (name.empty()) continue;
    if (name.front() != '/' || name.size() < 2) {
      throw base::ConfigError("data.{} = \"{}\": the absolute name of an array in the file is wanted, such as \"/{}\"",
                              key, name, key);
    }
    const auto [other, is_new] = taken.emplace(name, key);
    if (!is_new) {
      throw base::ConfigError("data.{} = \"{}\": data.{} names the same array, another one is wanted", key, name,
                              other->second);
    }
  }
}

DatasetOptions dataset_options(const DataConfig& c) {
  return {.images = c.images,
          .labels = c.labels,
          .condition = c.condition,
          .static_values = c.static_values,
          .parameters = c.parameters,
          .mask = c.mask};
}

ImageOrder::Options order_options(const DataConfig& c) {
  return {.shuffle = c.shuffle, .block_images = c.block_images, .pool_images = c.pool_images};
}

}  // namespace ddpm::data
