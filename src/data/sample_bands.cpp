#include "data/sample_bands.h"

#include <algorithm>

#include "base/json.h"
#include "comm/collectives.h"
#include "data/rows.h"
#include "data/statistics.h"

namespace ddpm::data {
namespace {

constexpr int64_t kBands = 64;
constexpr int64_t kBandBytes = int64_t{1} << 20;

/// Reads one band: `extent` of image `index` from `begin` on.
class Band {
 public:
  Band(const Dataset& dataset, const ImageFormat& format)
      : dataset_(dataset),
        images_(dataset.info().find(FieldRole::image)),
        mask_(dataset.info().find(FieldRole::mask)),
        values_(format.bytes()),
        valid_(mask_ < dataset.info().fields.size() ? static_cast<std::size_t>(format.pixels()) : 0) {}

  void add_to(Statistics& statistics, int64_t index, const std::vector<int64_t>& begin,
              const std::vector<int64_t>& extent) {
    dataset_.read_window_unconfirmed(images_, index, begin, extent, values_);
    if (mask_ < dataset_.fields().size()) {
      dataset_.read_window_unconfirmed(mask_, index, begin, extent, valid_);
    } else if (!valid_.empty()) {
      const std::size_t of_set = mask_ - dataset_.fields().size();
      copy_window(dataset_.set_values(of_set), dataset_.set_fields()[of_set].shape, begin, extent, valid_);
    }
    statistics.add(values_, valid_);
  }

 private:
  const Dataset& dataset_;
  std::size_t images_;
  std::size_t mask_;  // a place in info().fields
  std::vector<std::byte> values_;
  std::vector<std::byte> valid_;
};

}  // namespace

std::vector<ChannelStatistics> statistics_of_bands(comm::Communicator& comm, const Dataset& dataset) {
  const ImageFormat image = dataset.image();
  std::vector<int64_t> shape = image.shape();
  const int64_t side = shape.front();
  shape.front() = std::clamp<int64_t>(kBandBytes / (static_cast<int64_t>(image.bytes()) / side), 1, side);
  const ImageFormat format = ImageFormat::of(shape, image.dtype);
  const std::string seen = comm::agree_on_root(comm, [&] {
    Statistics statistics(format);
    Band band(dataset, format);
    const std::vector<int64_t> extent = format.sides();
    for (int64_t i = 0; i < kBands; ++i) {
      std::vector<int64_t> begin(extent.size(), 0);
      begin.front() = (side - extent.front()) * i / (kBands - 1);
      band.add_to(statistics, i * dataset.size() / kBands, begin, extent);
    }
    dataset.expect_unchanged();
    return statistics.to_json().dump();
  });
  const Statistics all = Statistics::from_json(format, base::Json::parse(seen));
  return all.empty() ? std::vector<ChannelStatistics>{} : all.result();
}

}  // namespace ddpm::data
