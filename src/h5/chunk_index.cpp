#include "h5/chunk_index.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "h5/chunk_tree.h"
#include "h5/library.h"

namespace ddpm::h5 {

namespace {

constexpr uint64_t kMostChunks = uint64_t{1} << 22U;  // 100 MB of places
/// HDF5 goes through all chunks before one to find it, so that the time grows with the square of their number.
constexpr uint64_t kMostChunksOfHdf5 = uint64_t{1} << 13U;

/// Puts chunks into the order of the grid, and refuses an index that no writer makes.
class Placer {
 public:
  Placer(ChunkLayout& layout, const std::string& label, uint64_t most_bytes)
      : layout_(layout), label_(label), most_bytes_(most_bytes) {}

  void place(std::span<const hsize_t> begin, const ChunkPlace& chunk) {
    uint64_t number = 0;
    for (std::size_t axis = 0; axis < layout_.shape.size(); ++axis) {
      const uint64_t extent = layout_.chunk[axis];
      if (begin[axis] >= layout_.shape[axis] || begin[axis] % extent != 0) return refuse("one begins outside");
      number = number * chunks_along(layout_.shape[axis], extent) + begin[axis] / extent;
    }
    if (layout_.places[number].bytes != 0) return refuse("one is there twice");
    if (chunk.bytes == 0 || chunk.bytes > most_bytes_) {
      return refuse(fmt::format("one has {} bytes, 1 to {} are wanted", chunk.bytes, most_bytes_));
    }
    constexpr uint64_t kPlacesEnd = uint64_t{1} << 62U;  // no sum of places overflows below it
    if (chunk.offset > kPlacesEnd) return refuse(fmt::format("one lies at byte {}", chunk.offset));
    layout_.places[number] = chunk;
  }

 private:
  void refuse(const std::string& what) const {
    throw base::DatasetError("{}: the list of its chunks is damaged: {}", label_, what);
  }

  ChunkLayout& layout_;
  const std::string& label_;
  uint64_t most_bytes_;
};

/// Places the chunks as HDF5 lists them.
void place_by_library(hid_t dataset, ChunkLayout& layout, uint64_t written, const std::string& label,
                      uint64_t most_bytes) {
  Placer placer(layout, label, most_bytes);
  const Handle space = data_space(checked(H5Dget_space(dataset), label, "read the shape"));
  std::array<hsize_t, H5S_MAX_RANK> begin{};
  for (hsize_t i = 0; i < written; ++i) {
    unsigned skipped = 0;
    haddr_t offset = 0;
    hsize_t bytes = 0;
    checked(H5Dget_chunk_info(dataset, space.id(), i, begin.data(), &skipped, &offset, &bytes), label, "find a chunk");
    placer.place(begin, {.offset = offset, .bytes = bytes, .skipped = skipped});
  }
}

/// Places the chunks as the file itself lists them. Returns false where it does so in ways that list_chunks() does not
/// know, or where it lists another number of them than HDF5 does.
bool place_by_file(hid_t dataset, const base::Path& path, ChunkLayout& layout, uint64_t written,
                   const std::string& label, uint64_t most_bytes) {
  H5O_info_t info;
  checked(H5Oget_info2(dataset, &info, H5O_INFO_BASIC), label, "find its header");
  const uint64_t chunks = layout.places.size();
  Placer placer(layout, label, most_bytes);
  uint64_t listed = 0;
  const bool known = base::read_as<base::DatasetError>([&] {
    return list_chunks(base::InputFile(path), info.addr, layout.shape.size(), chunks,
                       [&](std::span<const uint64_t> begin, const ChunkPlace& place) {
                         std::array<hsize_t, H5S_MAX_RANK> first{};
                         std::ranges::copy(begin, first.begin());
                         placer.place(first, place);
                         ++listed;
                       });
  });
  if (known && listed == written) return true;
  std::ranges::fill(layout.places, ChunkPlace{});
  return false;
}

/// Whether HDF5 stores chunks in ways that ChunkReader does not know.
bool is_special(hid_t dataset, hid_t properties, const std::string& label) {
  unsigned options = 0;
  checked(H5Pget_chunk_opts(properties, &options), label, "look at the chunks");
  const Handle file(checked(H5Iget_file_id(dataset), label, "find the file"), H5Fclose);
  const Handle creation = property_list(checked(H5Fget_create_plist(file.id()), label, "look at the file"));
  hsize_t before = 0;
  checked(H5Pget_userblock(creation.id(), &before), label, "look at the file");
  std::size_t address_bytes = 0;
  std::size_t length_bytes = 0;
  checked(H5Pget_sizes(creation.id(), &address_bytes, &length_bytes), label, "look at the file");
  return options != 0 || before != 0 || address_bytes != 8 || length_bytes != 8;
}

}  // namespace

std::optional<bool> turned(hid_t dataset, Element element, const std::string& label) {
  if (element == Element::other) return std::nullopt;
  const Handle type = data_type(checked(H5Dget_type(dataset), label, "read the element type"));
  const Handle other = data_type(checked(H5Tcopy(memory_type(element)), label, "copy a type"));
  if (checked(H5Tequal(type.id(), other.id()), label, "compare types") > 0) return false;
  const H5T_order_t order = H5Tget_order(other.id()) == H5T_ORDER_LE ? H5T_ORDER_BE : H5T_ORDER_LE;
  checked(H5Tset_order(other.id(), order), label, "turn a type");
  if (checked(H5Tequal(type.id(), other.id()), label, "compare types") > 0) return true;
  return std::nullopt;
}

std::optional<uint64_t> first_chunk_offset(hid_t dataset, const std::string& label) {
  const Handle space = data_space(checked(H5Dget_space(dataset), label, "read the shape"));
  hsize_t chunks = 0;
  checked(H5Dget_num_chunks(dataset, space.id(), &chunks), label, "count the chunks");
  if (chunks == 0) return std::nullopt;
  std::array<hsize_t, H5S_MAX_RANK> begin{};
  unsigned skipped = 0;
  haddr_t offset = 0;
  hsize_t bytes = 0;
  checked(H5Dget_chunk_info(dataset, space.id(), 0, begin.data(), &skipped, &offset, &bytes), label, "find a chunk");
  return offset;
}

std::vector<Filter> filters_of(hid_t dataset, const std::string& label) {
  const Handle list = property_list(checked(H5Dget_create_plist(dataset), label, "look at the storage"));
  std::vector<Filter> filters;
  const int count = checked(H5Pget_nfilters(list.id()), label, "look at the filters");
  for (int i = 0; i < count; ++i) {
    std::array<unsigned, 32> values{};
    std::size_t n = values.size();
    unsigned flags = 0;
    const H5Z_filter_t id =
        checked(H5Pget_filter2(list.id(), static_cast<unsigned>(i), &flags, &n, values.data(), 0, nullptr, nullptr),
                label, "look at the filters");
    filters.push_back({.id = id, .values = {values.begin(), values.begin() + std::min(n, values.size())}});
  }
  return filters;
}

std::optional<ChunkLayout> layout_of_chunks(hid_t dataset, const base::Path& path, const std::vector<uint64_t>& chunk,
                                            const std::vector<int64_t>& shape, Element element,
                                            const std::string& label) {
  ChunkLayout layout{.shape = {shape.begin(), shape.end()},
                     .chunk = chunk,
                     .element_bytes = size_of(element),
                     .filters = filters_of(dataset, label)};
  if (chunk.size() != shape.size() || element == Element::other) return std::nullopt;
  uint64_t chunks = 1;  // no more than elements, whose number does not overflow
  uint64_t bytes = layout.element_bytes;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
    if (layout.shape[axis] == 0) return std::nullopt;
    chunks *= chunks_along(layout.shape[axis], chunk[axis]);
    bytes *= chunk[axis];
  }
  const Handle list = property_list(checked(H5Dget_create_plist(dataset), label, "look at the storage"));
  const std::optional<bool> turn = turned(dataset, element, label);
  const bool known = can_undo_all(layout.filters);
  if (!known || !turn || is_special(dataset, list.id(), label) || chunks > kMostChunks) return std::nullopt;
  layout.turned = *turn;
  layout.places.resize(chunks);
  constexpr uint64_t kFraming = uint64_t{1} << 16U;
  const uint64_t most_bytes = 2 * bytes + kFraming;
  const Handle space = data_space(checked(H5Dget_space(dataset), label, "read the shape"));
  hsize_t written = 0;
  checked(H5Dget_num_chunks(dataset, space.id(), &written), label, "count the chunks");
  if (place_by_file(dataset, path, layout, written, label, most_bytes)) return layout;
  if (chunks > kMostChunksOfHdf5) return std::nullopt;
  place_by_library(dataset, layout, std::min<uint64_t>(written, chunks), label, most_bytes);
  return layout;
}

}  // namespace ddpm::h5
