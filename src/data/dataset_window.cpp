// Reading windows of images, and what vouches for them.
#include <algorithm>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/product.h"
#include "data/dataset_state.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

/// Bytes of an image that are held while its checksum is computed, or one line of its first axis.
constexpr std::size_t kSlabBytes = std::size_t{4} << 20U;

/// The CRC-32C of one row.
uint32_t checksum_of(const Rows& rows, int64_t row) {
  std::vector<int64_t> extent = rows.shape();
  std::vector<int64_t> begin(extent.size(), 0);
  const int64_t side = extent.front();
  const std::size_t line_bytes = rows.row_bytes() / static_cast<std::size_t>(side);
  extent.front() = std::min(side, static_cast<int64_t>(std::max<std::size_t>(1, kSlabBytes / line_bytes)));
  std::vector<std::byte> slab(static_cast<std::size_t>(extent.front()) * line_bytes);
  uint32_t sum = 0;
  for (; begin.front() < side; begin.front() += extent.front()) {
    extent.front() = std::min(extent.front(), side - begin.front());
    const auto values = std::span(slab).first(static_cast<std::size_t>(extent.front()) * line_bytes);
    rows.read_window(row, begin, extent, values);
    sum = base::crc32c(values, sum);
  }
  return sum;
}

}  // namespace

void Dataset::State::read_window(std::size_t field, int64_t image, const WindowPlace& window,
                                 std::span<std::byte> out) const {
  const auto after = std::ranges::upper_bound(info.shards, image, {}, &ShardInfo::first);
  const auto shard = static_cast<std::size_t>(after - info.shards.begin()) - 1;
  const int64_t row = image - info.shards[shard].first;
  guarded(field, shard, [&] {
    vouch(field, shard, row);
    read_and_check_window(field, shard, row, window, out);
  });
}

void Dataset::State::read_and_check_window(std::size_t field, std::size_t shard, int64_t row, const WindowPlace& window,
                                           std::span<std::byte> out) const {
  const Column& column = columns[field];
  const FieldRole role = fields[field].role;
  const ImageFormat whole = fields[field].format();
  column.shards[shard]->read_window(row, window.begin, window.extent, out);
  std::vector<int64_t> shape = window.extent;
  shape.push_back(whole.channels);
  const ImageFormat format = ImageFormat::of(shape, whole.dtype);
  const int64_t in_set = info.shards[shard].first + row;
  const BlockOrigin origin{
      column.shards[shard]->label(), row, in_set, column.shards[shard]->advice(), {&window, whole.sides()}};
  if (role == FieldRole::mask) require_zero_or_one(out, format, origin);
  if (format.dtype != base::DType::f32) return;
  require_finite(out, format, origin, role == FieldRole::image ? masks_of(in_set, window) : BlockMasks{});
}

BlockMasks Dataset::State::masks_of(int64_t image, const WindowPlace& window) const {
  const std::size_t at = info.find(FieldRole::mask);
  if (at == info.fields.size()) return {};
  return [this, at, image, window] {
    std::vector<std::byte> masks(static_cast<std::size_t>(base::product_of(window.extent)));
    if (at < fields.size()) {
      read_window(at, image, window, masks);
      return masks;
    }
    const std::span<const std::byte> one = set_values(at - fields.size());
    const WindowOrigin origin{&window, info.fields[at].format().sides()};
    for (std::size_t i = 0; i < masks.size(); ++i) {
      masks[i] = one[static_cast<std::size_t>(origin.whole_pixel(static_cast<int64_t>(i)))];
    }
    return masks;
  };
}

/// A checksum tells of a whole image. So the image is read whole once, by each rank that reads a window of it, and from
/// then on its file must stay the same.
void Dataset::State::vouch(std::size_t field, std::size_t shard, int64_t row) const {
  const Column& column = columns[field];
  if (column.checksums.row_bytes == 0 || held_images) return;
  const std::scoped_lock lock(vouched->mutex);
  auto& files_seen = vouched->files;
  if (!files_seen.contains(shard)) files_seen.emplace(shard, OpenedFile::of(paths[shard]));
  vouched->read_since_look.insert(shard);
  const int64_t in_set = info.shards[shard].first + row;
  if (vouched->images.contains({field, in_set})) return;
  const uint32_t wanted = checksums(column)[static_cast<std::size_t>(in_set)];
  require_checksum(checksum_of(*column.shards[shard], row), wanted, {column.shards[shard]->label(), row, in_set, {}});
  vouched->images.emplace(field, in_set);
}

void Dataset::State::expect_vouched_files() const {
  const std::scoped_lock lock(vouched->mutex);
  for (const std::size_t shard : vouched->read_since_look) vouched->files.at(shard).expect_unchanged(paths[shard]);
  vouched->read_since_look.clear();
}

void Dataset::read_window_unconfirmed(std::size_t field, int64_t index, std::span<const int64_t> begin,
                                      std::span<const int64_t> extent, std::span<std::byte> out) const {
  DDPM_CHECK(index >= 0 && index < size() && fields().at(field).is_read_in_blocks(), "image {} of {}, field {}", index,
             size(), field);
  state_->read_window(field, index, {{begin.begin(), begin.end()}, {extent.begin(), extent.end()}}, out);
}

}  // namespace ddpm::data
