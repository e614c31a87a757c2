#include "data/order.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"

namespace ddpm::data {

namespace {

// Positions of the shuffle stream within an epoch: what a permutation is for.
constexpr uint64_t kWhole = 0;      // all images, or all blocks
constexpr uint64_t kFirstPool = 1;  // pool p: kFirstPool + p

constexpr double kMostSlots = 0x1p53;  // a set has fewer slots in an epoch than this

/// How often each part is read in an epoch; the least weight counts as 1.
std::vector<int64_t> slots_of(const std::vector<OrderedSet>& parts) {
  DDPM_CHECK(!parts.empty(), "no set");
  double least = parts.front().weight;
  for (const OrderedSet& part : parts) least = std::min(least, part.weight);
  std::vector<int64_t> slots;
  for (const OrderedSet& part : parts) {
    const double wanted = std::round(part.weight / least * static_cast<double>(part.count));
    if (!(wanted < kMostSlots)) {
      throw base::ConfigError("data.train: a weight of {} beside one of {}: an epoch would have {} images of the set",
                              part.weight, least, wanted);
    }
    slots.push_back(static_cast<int64_t>(wanted));
  }
  return slots;
}

/// The key of the order that a set has for itself. No permutation uses these numbers of the stream.
uint64_t seed_of(std::size_t set, uint64_t seed) {
  if (set == 0) return seed;
  const base::RandomSequence drawn(seed, base::Stream::shuffle, 0, set);
  return uint64_t{drawn.bits(0)} << 32U | drawn.bits(1);
}

}  // namespace

int64_t images_per_epoch(const std::vector<OrderedSet>& parts) {
  int64_t slots = 0;
  for (const int64_t share : slots_of(parts)) slots += share;
  return slots;
}

ImageOrder::ImageOrder(const std::vector<OrderedSet>& parts, uint64_t seed, const ImageOrderOptions& options)
    : ImageOrder(images_per_epoch(parts), seed, options) {
  if (parts.size() == 1) return;
  set_slots_ = slots_of(parts);
  for (const OrderedSet& part : parts) sets_.emplace_back(part.count, seed, options);
}

ImageOrder::ImageOrder(int64_t count, uint64_t seed, const ImageOrderOptions& options)
    : count_(count),
      seed_(seed),
      shuffle_(options.shuffle),
      block_images_(std::min(options.block_images, count)),
      pool_blocks_(std::max<int64_t>(1, options.pool_images / std::max<int64_t>(1, options.block_images))) {
  DDPM_CHECK(count > 0 && options.block_images > 0, "{} images in blocks of {}", count, options.block_images);
  block_count_ = (count_ + block_images_ - 1) / block_images_;
}

int64_t ImageOrder::images() const {
  int64_t images = sets_.empty() ? count_ : 0;
  for (const ImageOrder& set : sets_) images += set.count();
  return images;
}

std::vector<SetShare> ImageOrder::shares() const {
  if (sets_.empty()) return {SetShare{.images = count_, .slots = count_}};
  std::vector<SetShare> shares;
  shares.reserve(sets_.size());
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    shares.push_back({.images = sets_[s].count(), .slots = set_slots_[s]});
  }
  return shares;
}

void ImageOrder::relate_sets(SetOrders orders) {
  if (sets_.empty()) return;
  set_orders_ = orders;
  for (std::size_t s = 0; s < sets_.size(); ++s) sets_[s].seed_ = orders == SetOrders::own ? seed_of(s, seed_) : seed_;
}

void ImageOrder::begin(int64_t slot, int64_t epoch) {
  DDPM_CHECK(slot >= 0 && epoch >= 0, "slot {} begins epoch {}", slot, epoch);
  first_slot_ = slot;
  first_epoch_ = epoch;
}

int64_t ImageOrder::image(int64_t slot) const {
  DDPM_CHECK(slot >= first_slot_, "slot {}, the first is {}", slot, first_slot_);
  if (!sets_.empty()) return of_sets(slot - first_slot_);
  return in_epoch(epoch(slot), (slot - first_slot_) % count_);
}

int64_t ImageOrder::in_epoch(int64_t epoch, int64_t index) const {
  if (shuffle_ == Shuffle::none) return index;
  if (shuffle_ == Shuffle::block) return in_blocks(static_cast<uint64_t>(epoch), index);
  const base::Permutation images(seed_, base::Stream::shuffle, static_cast<uint64_t>(epoch), kWhole,
                                 static_cast<uint64_t>(count_));
  return static_cast<int64_t>(images(static_cast<uint64_t>(index)));
}

/// The slots of an epoch that are left after the sets before are dealt out by the same rule: slot j is the set's where
/// slots · (j + 1) / left, rounded down, is one more than slots · j / left. So every stretch of slots has nearly its
/// share of every set, and a set's images keep their order.
int64_t ImageOrder::of_sets(int64_t slot) const {
  int64_t j = slot % count_;
  int64_t left = count_;
  int64_t first = 0;
  std::size_t set = 0;
  for (;; ++set) {
    const int64_t slots = set_slots_.at(set);
    const auto before = [&](int64_t k) {
      return static_cast<int64_t>(static_cast<unsigned __int128>(slots) * static_cast<uint64_t>(k) /
                                  static_cast<uint64_t>(left));
    };
    const int64_t taken = before(j);
    if (before(j + 1) > taken) {
      const int64_t index = slot / count_ * slots + taken;
      const int64_t images = sets_[set].count();
      return first + sets_[set].in_epoch(first_epoch_ + index / images, index % images);
    }
    j -= taken;
    left -= slots;
    first += sets_[set].count();
  }
}

/// The blocks of an epoch in their random order, end to end. All are full but the stored order's last, which may come
/// anywhere: what follows it lies `missing` images earlier.
struct ImageOrder::Blocks {
  base::Permutation order;
  int64_t size;         // images in a full block
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
