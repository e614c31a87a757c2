// The order in which training reads its images: a pure function of the slot, in constant memory.
//
// Slot k = step · global_size + p (step from 0, p the position in the global batch) reads image permutation(e, k mod N)
// with epoch e = k div N; of several sets, see OrderedSet. A run that goes on with another set begins an epoch at
// its first slot there. Each epoch reads each image once, for any N; ranks and micro-batches play no part.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ddpm::data {

enum class Shuffle : uint8_t {
  block,  ///< blocks of neighbouring images in random order, then images shuffled within pools of such blocks
  full,   ///< any image anywhere
  none,   ///< stored order
};
constexpr auto names_of(Shuffle /*type*/) { return std::to_array<std::string_view>({"block", "full", "none"}); }

struct ImageOrderOptions {
  Shuffle shuffle = Shuffle::block;
  int64_t block_images = 128;
  int64_t pool_images = 4096;  ///< rounded down to whole blocks, at least one
};

/// One of the sets that are read together. In an epoch each image of a set of weight w is read w / w' times in the
/// mean, where w' is the least weight; each set has an order of its own, and their images come evenly mixed.
struct OrderedSet {
  int64_t count = 0;  ///< images (> 0), which follow those of the parts before
  double weight = 1.0;
};

/// How the orders of sets that are read together are related.
enum class SetOrders : uint8_t {
  alike,  ///< those of sets of equal size are the same, so that the same images always meet
  own,    ///< each set's is drawn for itself; the first one's is that of the set alone
};
constexpr auto names_of(SetOrders /*type*/) { return std::to_array<std::string_view>({"alike", "own"}); }

/// What an order has of one of its sets.
struct SetShare {
  int64_t images = 0;
  int64_t slots = 0;  ///< of an epoch
  friend bool operator==(const SetShare&, const SetShare&) = default;
};

class ImageOrder {
 public:
  /// `count` images (> 0), keyed by the run's seed.
  ImageOrder(int64_t count, uint64_t seed, const ImageOrderOptions& options);
  /// The images of several sets, one after the other.
  ImageOrder(const std::vector<OrderedSet>& parts, uint64_t seed, const ImageOrderOptions& options);

  /// Relates the orders of several sets, which are alike until then; one set alone keeps its order.
  void relate_sets(SetOrders orders);
  /// Has `slot` begin `epoch`: slots before it were of another set.
  void begin(int64_t slot, int64_t epoch);

  /// Image read by slot k, not before the first one.
  [[nodiscard]] int64_t image(int64_t slot) const;
  /// The epoch in which slot k is read.
  [[nodiscard]] int64_t epoch(int64_t slot) const { return first_epoch_ + (slot - first_slot_) / count_; }
  /// Slots of an epoch.
  [[nodiscard]] int64_t count() const { return count_; }
  /// Images of all sets.
  [[nodiscard]] int64_t images() const;
  /// The shares of the sets, one after the other: orders are alike where these, seed, options and set_orders() are.
  [[nodiscard]] std::vector<SetShare> shares() const;
  [[nodiscard]] SetOrders set_orders() const { return set_orders_; }

 private:
  struct Blocks;
  [[nodiscard]] int64_t in_epoch(int64_t epoch, int64_t index) const;
  [[nodiscard]] int64_t in_blocks(uint64_t epoch, int64_t index) const;
  [[nodiscard]] int64_t of_sets(int64_t slot) const;

  std::vector<ImageOrder> sets_;    // where there are several sets, the order within each; empty: there is one set
  std::vector<int64_t> set_slots_;  // for each of them, its slots in an epoch
  SetOrders set_orders_ = SetOrders::alike;
  int64_t count_;
  int64_t first_slot_ = 0;
  int64_t first_epoch_ = 0;
  uint64_t seed_;
  Shuffle shuffle_;
  int64_t block_images_;
  int64_t block_count_;
  int64_t pool_blocks_;
};

/// Slots of an epoch over these sets: their images, where all weights are equal.
int64_t images_per_epoch(const std::vector<OrderedSet>& parts);

}  // namespace ddpm::data
