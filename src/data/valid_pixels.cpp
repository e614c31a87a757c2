#include "data/valid_pixels.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/pulse.h"
#include "comm/collectives.h"
#include "data/statistics.h"

namespace ddpm::data {
namespace {

constexpr int64_t kMaskBandBytes = int64_t{4} << 20;
/// Images that a rank looks at between two agreements: few at first, since they usually suffice.
constexpr int64_t kMostAtOnce = 256;

bool has_valid(std::span<const std::byte> mask) {
  return std::ranges::any_of(mask, [](std::byte value) { return value != std::byte{0}; });
}

/// Whether the mask of an image is 1 anywhere; it is read band by band.
bool has_valid(const Dataset& dataset, std::size_t field, int64_t image) {
  const std::vector<int64_t>& sides = dataset.fields()[field].shape;
  const int64_t row_bytes = static_cast<int64_t>(dataset.fields()[field].bytes()) / sides.front();
  const int64_t most = std::clamp<int64_t>(kMaskBandBytes / row_bytes, 1, sides.front());
  std::vector<int64_t> begin(sides.size(), 0);
  std::vector<int64_t> extent = sides;
  std::vector<std::byte> band;
  for (; begin.front() < sides.front(); begin.front() += extent.front()) {
    extent.front() = std::min(most, sides.front() - begin.front());
    band.resize(static_cast<std::size_t>(extent.front() * row_bytes));
    dataset.read_window_unconfirmed(field, image, begin, extent, band);
    if (has_valid(band)) return true;
    base::pulse();
  }
  return false;
}

/// Whether any image's mask is. Ranks take turns, and stop together.
bool any_has_valid(comm::Communicator& comm, const Dataset& dataset, std::size_t field) {
  int64_t at_once = 1;
  for (int64_t first = 0; first < dataset.size(); at_once = std::min(2 * at_once, kMostAtOnce)) {
    int64_t found = 0;
    comm::agree(comm, [&] {
      for (int64_t i = 0; i < at_once && found == 0; ++i) {
        const int64_t image = first + i * comm.size() + comm.rank();
        if (image < dataset.size() && has_valid(dataset, field, image)) found = 1;
      }
      dataset.expect_unchanged();
    });
    if (comm::all_reduce(comm, found, comm::ReduceOp::max) > 0) return true;
    first += at_once * comm.size();
  }
  return false;
}

}  // namespace

void expect_valid_pixels(comm::Communicator& comm, const Dataset& dataset) {
  const std::size_t at = dataset.info().find(FieldRole::mask);
  if (at == dataset.info().fields.size() || !dataset.info().statistics.empty()) return;
  const std::size_t each = dataset.fields().size();
  const bool found = at < each ? any_has_valid(comm, dataset, at) : has_valid(dataset.set_values(at - each));
  comm::agree(comm, [&] {
    if (found) return;
    throw base::DatasetError("{}: {}", dataset.path().string(), kNothingValid);
  });
}

}  // namespace ddpm::data
