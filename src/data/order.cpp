#include "data/order.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"

namespace ddpm::data {

namespace {

// Positions of the shuffle stream within an epoch: what a permutation is for.
constexpr uint64_t kWhole = 0;      // all images, or all blocks
constexpr uint64_t kFirstPool = 1;  // pool p: kFirstPool + p

}  // namespace

ImageOrder::ImageOrder(int64_t count, uint64_t seed, const Options& options)
    : count_(count),
      seed_(seed),
      shuffle_(options.shuffle),
      block_images_(std::min(options.block_images, count)),
      pool_blocks_(std::max<int64_t>(1, options.pool_images / std::max<int64_t>(1, options.block_images))) {
  DDPM_CHECK(count > 0 && options.block_images > 0, "{} images in blocks of {}", count, options.block_images);
  block_count_ = (count_ + block_images_ - 1) / block_images_;
}

void ImageOrder::begin(int64_t slot, int64_t epoch) {
  DDPM_CHECK(slot >= 0 && epoch >= 0, "slot {} begins epoch {}", slot, epoch);
  first_slot_ = slot;
  first_epoch_ = epoch;
}

int64_t ImageOrder::image(int64_t slot) const {
  DDPM_CHECK(slot >= first_slot_, "slot {}, the first is {}", slot, first_slot_);
  const auto in_epoch = static_cast<uint64_t>(epoch(slot));
  const int64_t index = (slot - first_slot_) % count_;
  if (shuffle_ == Shuffle::none) return index;
  if (shuffle_ == Shuffle::block) return in_blocks(in_epoch, index);
  const base::Permutation images(seed_, base::Stream::shuffle, in_epoch, kWhole, static_cast<uint64_t>(count_));
  return static_cast<int64_t>(images(static_cast<uint64_t>(index)));
}

/// The blocks of an epoch in their random order, end to end. All are full but the stored order's last, which may come
/// anywhere: what follows it lies `missing` images earlier.
struct ImageOrder::Blocks {
  base::Permutation order;
  int64_t size;         // of a full block
  int64_t missing;      // how many images the short block lacks
  int64_t short_place;  // where the short block comes

  /// Where place `j` starts.
  [[nodiscard]] int64_t start(int64_t j) const { return j * size - (j > short_place ? missing : 0); }
  /// The place that covers `index`.
  [[nodiscard]] int64_t place_of(int64_t index) const {
    return index < start(short_place + 1) ? std::min(index / size, short_place) : (index + missing) / size;
  }
  /// The image at `index`.
  [[nodiscard]] int64_t image(int64_t index) const {
    const int64_t j = place_of(index);
    return static_cast<int64_t>(order(static_cast<uint64_t>(j))) * size + index - start(j);
  }
};

int64_t ImageOrder::in_blocks(uint64_t epoch, int64_t index) const {
  const base::Permutation order(seed_, base::Stream::shuffle, epoch, kWhole, static_cast<uint64_t>(block_count_));
  const Blocks blocks{.order = order,
                      .size = block_images_,
                      .missing = block_count_ * block_images_ - count_,
                      .short_place = static_cast<int64_t>(order.inverse(static_cast<uint64_t>(block_count_ - 1)))};
  const int64_t pool = blocks.place_of(index) / pool_blocks_;
  const int64_t begin = blocks.start(pool * pool_blocks_);
  const int64_t end = blocks.start(std::min((pool + 1) * pool_blocks_, block_count_));
  const base::Permutation within(seed_, base::Stream::shuffle, epoch, kFirstPool + static_cast<uint64_t>(pool),
                                 static_cast<uint64_t>(end - begin));
  return blocks.image(begin + static_cast<int64_t>(within(static_cast<uint64_t>(index - begin))));
}

}  // namespace ddpm::data
