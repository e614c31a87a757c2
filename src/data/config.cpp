#include "data/config.h"

#include "base/error.h"

namespace ddpm::data {

void describe(config::Section& section, DataConfig& c) {
  using config::Identity;
  section.key("train", c.train, "Training set: a dataset folder or one .h5 file")
      .key("validation", c.validation,
           "Validation set: a dataset folder or one .h5 file, of images like those of train",
           {.identity = Identity::may_change})
      .key("images", c.images, "Name of the image array in a bare .h5 file")
      .key("labels", c.labels, "Name of the label array in a bare .h5 file; empty: labels are not read, of any set")
      .key("horizontal_flip", c.horizontal_flip, "Mirror each training image with probability 1/2")
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

Path train_path(const DataConfig& c) {
  if (c.train.empty() || c.train.front().path.empty()) {
    throw base::ConfigError("data.train is not set: a dataset folder or one .h5 file is wanted");
  }
  if (c.train.size() > 1) {
    throw base::ConfigError("data.train names {} sets; one is wanted", c.train.size());
  }
  return c.train.front().path;
}

DatasetOptions dataset_options(const DataConfig& c) { return {.images = c.images, .labels = c.labels}; }

ImageOrder::Options order_options(const DataConfig& c) {
  return {.shuffle = c.shuffle, .block_images = c.block_images, .pool_images = c.pool_images};
}

}  // namespace ddpm::data
