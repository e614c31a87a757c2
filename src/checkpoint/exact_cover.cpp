// Whether slices cover each element of a tensor exactly once, in time linear in their number whatever boxes they are
// of: a manifest is anybody's, and comparing slices in pairs takes minutes for a few megabytes of it.
//
// Each element gets a weight, the product over the axes of a random number for its place there, and the weights of all
// slices are summed. A slice's sum needs no walk over its elements: see prefix(). An exact cover has the sum of the
// whole tensor, always. For anything else, the difference from it is a polynomial in the random numbers, not zero and
// of degree kMaxAxes at most (the coefficient of an element's term is how often it is covered, less one), so that its
// value is zero with probability kMaxAxes / kPrime < 2^-56 at most: Schwartz, "Fast probabilistic algorithms for
// verification of polynomial identities", J. ACM 27 (1980), lemma 1. The numbers are drawn anew in each process: no
// file can be made to fit them.
#include <random>

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/slice.h"

namespace ddpm::checkpoint {
namespace {

constexpr uint64_t kPrime = (uint64_t{1} << 61U) - 1;

uint64_t minus(uint64_t a, uint64_t b) { return a >= b ? a - b : a + kPrime - b; }
uint64_t plus(uint64_t a, uint64_t b) { return minus(a, kPrime - b); }
uint64_t times(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  const auto folded = static_cast<uint64_t>(product & kPrime) + static_cast<uint64_t>(product >> 61U);
  return folded >= kPrime ? folded - kPrime : folded;
}

/// The random numbers, modulo kPrime.
class Weights {
 public:
  Weights() {
    std::random_device entropy;
    key_ = uint64_t{entropy()} << 32U | entropy();
  }

  /// The sum of the numbers of the places [begin, end) of an axis.
  [[nodiscard]] uint64_t of(std::size_t axis, layout::Range places) const {
    return minus(before(axis, places.end), before(axis, places.begin));
  }

  /// The sum over the first `count` elements of a box in row-major order: whole sub-boxes, one per axis, each at the
  /// places of element `count` on the axes before. `whole[axis]` is the sum over box[axis:], of which that at the end
  /// is 1.
  [[nodiscard]] uint64_t prefix(const Box& box, const std::vector<uint64_t>& whole, int64_t count) const {
    if (count == element_count(box)) return whole.front();
    int64_t stride = element_count(box);
    uint64_t sum = 0;
    uint64_t place = 1;
    for (std::size_t axis = 0; axis < box.size(); ++axis) {
      stride /= box[axis].size();
      const int64_t at = box[axis].begin + count / stride;
      count %= stride;
      sum = plus(sum, times(times(place, of(axis, {box[axis].begin, at})), whole[axis + 1]));
      place = times(place, of(axis, {at, at + 1}));
    }
    return sum;
  }

  /// Returns the sum over box[axis:] for each axis and after the last.
  [[nodiscard]] std::vector<uint64_t> whole(const Box& box) const {
    std::vector<uint64_t> sums(box.size() + 1, 1);
    for (std::size_t axis = box.size(); axis-- > 0;) sums[axis] = times(sums[axis + 1], of(axis, box[axis]));
    return sums;
  }

 private:
  /// The sum of the numbers of all places before one: itself as random as they are.
  [[nodiscard]] uint64_t before(std::size_t axis, int64_t place) const {
    const auto at = static_cast<uint64_t>(place);
    const auto words = base::philox4x32(
        key_, {static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32U), static_cast<uint32_t>(axis), 0});
    return (uint64_t{words[0]} << 32U | words[1]) % kPrime;
  }

  uint64_t key_;
};

}  // namespace

void check_exact_cover(const std::string& name, std::span<const int64_t> shape, std::span<const TensorSlice> slices) {
  static const Weights weights;
  const int64_t count = element_count(shape, name);
  int64_t covered = 0;
  uint64_t sum = 0;
  for (const TensorSlice& slice : slices) {
    validate(slice);
    if (slice.flat.empty()) continue;
    if (slice.flat.size() > count - covered) {
      throw base::OutputError("tensor '{}': slices overlap: they have more than its {} elements", name, count);
    }
    covered += slice.flat.size();
    const std::vector<uint64_t> whole = weights.whole(slice.box);
    sum = plus(sum, weights.prefix(slice.box, whole, slice.flat.end));
    sum = minus(sum, weights.prefix(slice.box, whole, slice.flat.begin));
  }
  if (covered != count) {
    throw base::OutputError("tensor '{}': slices cover {} of its {} elements", name, covered, count);
  }
  Box everything;
  for (const int64_t size : shape) everything.push_back({0, size});
  if (count > 0 && sum != weights.whole(everything).front()) {
    throw base::OutputError("tensor '{}': slices overlap: they cover some of its {} elements twice, others never", name,
                            count);
  }
}

}  // namespace ddpm::checkpoint
