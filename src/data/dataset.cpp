#include "data/dataset.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "data/finite.h"
#include "data/foreign_file.h"
#include "data/shard_check.h"
#include "h5/file.h"

namespace ddpm::data {

using base::DatasetError;

struct Dataset::State {
  Path path;
  DatasetInfo info;
  std::vector<h5::File> files;      // one per shard
  std::vector<h5::Dataset> images;  // one per shard; released before the files
  std::vector<int64_t> labels;
  std::vector<uint32_t> checksums;  // empty: a bare file without
  std::optional<FileStamp> stamp;   // of a bare file
  bool chunked = false;             // a bare file's images
  bool channels_first = false;
  int64_t num_classes = 0;
  std::string content_hash;

  void open_folder(comm::Communicator& comm);
  void open_file(comm::Communicator& comm, const DatasetOptions& options);
  void load_arrays(comm::Communicator& comm);
  void share_arrays(comm::Communicator& comm);
  void check_labels();
  void hash_content();
  void read_from_shard(std::size_t shard, int64_t first, int64_t count, std::span<std::byte> out) const;
  void verify(std::size_t shard, int64_t first, std::span<const std::byte> images) const;
  void require_finite(std::size_t shard, int64_t first, std::span<const std::byte> images) const;
};

namespace {

h5::Element element_of(base::DType dtype) { return dtype == base::DType::u8 ? h5::Element::u8 : h5::Element::f32; }

template <typename T>
void broadcast(comm::Communicator& comm, std::span<T> values, int root) {
  comm.broadcast({values.data(), static_cast<int64_t>(values.size_bytes()), base::DType::u8}, root).wait();
}

/// [n, channels, pixels] to [n, pixels, channels] for elements of type T.
template <typename T>
void channels_last(std::span<const std::byte> in, const ImageFormat& format, std::span<std::byte> out) {
  const auto pixels = static_cast<std::size_t>(format.pixels());
  const auto channels = static_cast<std::size_t>(format.channels);
  for (std::size_t image = 0; image < in.size(); image += format.bytes()) {
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t p = 0; p < pixels; ++p) {
        std::memcpy(&out[image + (p * channels + c) * sizeof(T)], &in[image + (c * pixels + p) * sizeof(T)], sizeof(T));
      }
    }
  }
}

}  // namespace

Dataset Dataset::open(comm::Communicator& comm, const Path& path, const DatasetOptions& options) {
  auto state = std::make_unique<State>();
  state->path = path;
  const std::string kind = comm::agree_on_root(comm, [&]() -> std::string {
    const auto found = base::read_as<DatasetError>([&] { return base::kind_of(path); });
    if (found == base::FileKind::folder) return "folder";
    if (found == base::FileKind::regular) return "file";
    throw DatasetError("{}: there is no such dataset; a folder with {} or one .h5 file is wanted", path.string(),
                       kDescriptionFile);
  });
  if (kind == "folder") {
    state->open_folder(comm);
  } else {
    state->open_file(comm, options);
  }
  comm::agree(comm, [&] { state->check_labels(); });
  state->hash_content();
  if (options.labels.empty()) {
    state->labels.clear();
    state->num_classes = 0;
  }
  return Dataset(std::move(state));
}

void Dataset::State::open_folder(comm::Communicator& comm) {
  info = parse_dataset_info(comm::agree_on_root(comm, [&] { return to_json_text(read_dataset_info(path)); }),
                            (path / kDescriptionFile).string());
  const auto shards = static_cast<int>(info.shards.size());
  comm::agree(comm, [&] {
    for (int s = comm.rank(); s < shards; s += comm.size())
      check_shard_file(path, info.shards[static_cast<std::size_t>(s)]);
  });
  std::vector<Path> paths;
  for (const ShardInfo& shard : info.shards) paths.push_back(path / shard.file);
  files = h5::File::open_parallel(comm, paths);
  comm::agree(comm, [&] {
    for (std::size_t s = 0; s < files.size(); ++s) {
      images.push_back(files[s].dataset("/images"));
      check_shard_images(images.back(), info, info.shards[s]);
    }
  });
  load_arrays(comm);
}

/// Checksums and labels: each shard's are read by one rank and given to all.
void Dataset::State::load_arrays(comm::Communicator& comm) {
  checksums.resize(static_cast<std::size_t>(info.count));
  labels.resize(info.has_labels ? static_cast<std::size_t>(info.count) : 0);
  std::vector<h5::Dataset> checksum_arrays;
  std::vector<h5::Dataset> label_arrays;
  comm::agree(comm, [&] {
    for (std::size_t s = 0; s < files.size(); ++s) {
      checksum_arrays.push_back(files[s].dataset("/checksums"));
      check_shard_rows(checksum_arrays.back(), h5::Element::u32, info.shards[s].count);
      if (!info.has_labels) continue;
      label_arrays.push_back(files[s].dataset("/labels"));
      check_shard_rows(label_arrays.back(), h5::Element::i64, info.shards[s].count);
    }
  });
  comm::agree(comm, [&] {
    for (auto s = static_cast<std::size_t>(comm.rank()); s < files.size(); s += static_cast<std::size_t>(comm.size())) {
      const auto first = static_cast<std::size_t>(info.shards[s].first);
      const auto count = static_cast<std::size_t>(info.shards[s].count);
      checksum_arrays[s].read_rows(0, info.shards[s].count,
                                   std::as_writable_bytes(std::span(checksums).subspan(first, count)));
      if (!info.has_labels) continue;
      label_arrays[s].read_rows(0, info.shards[s].count,
                                std::as_writable_bytes(std::span(labels).subspan(first, count)));
    }
  });
  share_arrays(comm);
}

void Dataset::State::share_arrays(comm::Communicator& comm) {
  for (std::size_t s = 0; s < info.shards.size(); ++s) {
    const int root = static_cast<int>(s % static_cast<std::size_t>(comm.size()));
    const auto first = static_cast<std::size_t>(info.shards[s].first);
    const auto count = static_cast<std::size_t>(info.shards[s].count);
    if (!checksums.empty()) broadcast(comm, std::span(checksums).subspan(first, count), root);
    if (!labels.empty()) broadcast(comm, std::span(labels).subspan(first, count), root);
  }
}

void Dataset::State::open_file(comm::Communicator& comm, const DatasetOptions& options) {
  const std::string tried = comm::agree_on_root(comm, [&] {
    const FileStamp before = FileStamp::of(path);
    try_foreign_file(path, options);
    return before.text();
  });
  files = h5::File::open_parallel(comm, std::span(&path, 1));
  comm::agree(comm, [&] {
    stamp = FileStamp::of(path);
    stamp->expect_like(path, tried);
  });
  BareArrays arrays;
  comm::agree(comm, [&] {
    arrays = open_bare_arrays(files.front(), options);
    chunked = arrays.images->chunk_bytes() > 0;
  });
  info = std::move(arrays.info);
  channels_first = arrays.channels_first;
  labels.resize(arrays.labels ? static_cast<std::size_t>(info.count) : 0);
  checksums.resize(arrays.checksums ? static_cast<std::size_t>(info.count) : 0);
  comm::agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (arrays.labels) arrays.labels->read_integers(0, info.count, labels);
    if (arrays.checksums) arrays.checksums->read_rows(0, info.count, std::as_writable_bytes(std::span(checksums)));
    stamp->expect_unchanged(path);
  });
  share_arrays(comm);
  images.push_back(std::move(*arrays.images));
}

void Dataset::State::check_labels() {
  const auto classes = static_cast<int64_t>(info.class_names.size());
  const int64_t most = (classes > 0 ? classes : std::numeric_limits<int64_t>::max()) - 1;  // their number is an int64
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] > most) {
      throw DatasetError("{}: the label of image {} is {}, 0 to {} is wanted", path.string(), i, labels[i], most);
    }
    num_classes = std::max(num_classes, labels[i] + 1);
  }
  if (classes > 0 && !labels.empty()) num_classes = classes;
}

void Dataset::State::hash_content() {
  base::Sha256 digest;
  digest.update(fmt::format("ddpm dataset content 1\n{} {} {} {} {} {} {}\n", info.count, info.image.height,
                            info.image.width, info.image.channels, h5::name_of(element_of(info.image.dtype)),
                            info.normalization.scale, info.normalization.offset));
  for (const std::string& name : info.class_names) digest.update(fmt::format("{} {}\n", name.size(), name));
  digest.update(fmt::format("labels {}\n", labels.size()));
  digest.update(std::as_bytes(std::span(labels)));
  digest.update(checksums.empty() ? fmt::format("bytes {}\n", info.shards.front().size) : "checksums\n");
  digest.update(std::as_bytes(std::span(checksums)));
  content_hash = digest.hex();
}

void Dataset::State::verify(std::size_t shard, int64_t first, std::span<const std::byte> bytes) const {
  const int64_t count = static_cast<int64_t>(bytes.size() / info.image.bytes());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = info.shards[shard].first + first + i;
    const auto image = bytes.subspan(static_cast<std::size_t>(i) * info.image.bytes(), info.image.bytes());
    const uint32_t seen = base::crc32c(image);
    const uint32_t wanted = checksums[static_cast<std::size_t>(index)];
    if (seen != wanted) {
      throw DatasetError(
          "{}: image {} (number {} of the dataset) is damaged: its CRC-32C is {:08x}, {:08x} was written",
          images[shard].label(), first + i, index, seen, wanted);
    }
  }
}

void Dataset::State::read_from_shard(std::size_t shard, int64_t first, int64_t count, std::span<std::byte> out) const {
  std::vector<std::byte> stored(channels_first ? out.size() : 0);
  const std::span<std::byte> target = channels_first ? std::span(stored) : out;
  // Before: to find chunks, HDF5 reads more of the file. After: beyond the end of a file, HDF5 gives zeros.
  if (stamp && chunked) stamp->expect_unchanged(path);
  images[shard].read_rows(first, count, target);
  if (stamp) stamp->expect_unchanged(path);
  if (!checksums.empty()) verify(shard, first, target);
  if (channels_first && info.image.dtype == base::DType::u8) channels_last<uint8_t>(stored, info.image, out);
  if (channels_first && info.image.dtype == base::DType::f32) channels_last<float>(stored, info.image, out);
  if (info.image.dtype == base::DType::f32) require_finite(shard, first, out);
}

/// One such value would turn the loss, and then all weights, into NaN, and nothing would tell where it came from.
void Dataset::State::require_finite(std::size_t shard, int64_t first, std::span<const std::byte> bytes) const {
  const std::optional<int64_t> found = first_non_finite(bytes);
  if (!found) return;
  float value = 0.0F;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(*found) * sizeof(value), sizeof(value));
  const int64_t image = first + *found / info.image.elements();
  const int64_t element = *found % info.image.elements();
  const int64_t pixel = element / info.image.channels;
  throw DatasetError(
      "{}: image {} (number {} of the dataset) holds {} in channel {} at row {}, column {}; finite values are wanted",
      images[shard].label(), image, info.shards[shard].first + image, value, element % info.image.channels,
      pixel / info.image.width, pixel % info.image.width);
}

Dataset::Dataset(std::unique_ptr<State> state) : state_(std::move(state)) {}
Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;

const DatasetInfo& Dataset::info() const { return state_->info; }
const Path& Dataset::path() const { return state_->path; }
std::span<const int64_t> Dataset::labels() const { return state_->labels; }
int64_t Dataset::num_classes() const { return state_->num_classes; }
bool Dataset::has_checksums() const { return !state_->checksums.empty(); }
const std::string& Dataset::content_hash() const { return state_->content_hash; }

void Dataset::read_block(int64_t first, int64_t count, std::span<std::byte> out) const {
  DDPM_CHECK(first >= 0 && count >= 0 && count <= size() - first, "images [{}, {} + {}) of {}", first, first, count,
             size());
  DDPM_CHECK(out.size() == static_cast<std::size_t>(count) * image().bytes(), "{} bytes for {} images", out.size(),
             count);
  const auto& shards = info().shards;
  const auto after = std::ranges::upper_bound(shards, first, {}, &ShardInfo::first);
  for (auto s = static_cast<std::size_t>(after - shards.begin()) - 1; count > 0; ++s) {
    const int64_t inside = first - shards[s].first;
    const int64_t n = std::min(count, shards[s].count - inside);
    if (n > 0) {
      const std::size_t bytes = static_cast<std::size_t>(n) * image().bytes();
      state_->read_from_shard(s, inside, n, out.first(bytes));
      out = out.subspan(bytes);
    }
    first += n;
    count -= n;
  }
}

void Dataset::close(comm::Communicator& comm) {
  comm::agree(comm, [&] {
    state_->images.clear();
    for (h5::File& file : state_->files) file.close();
  });
  state_->files.clear();
}

}  // namespace ddpm::data
