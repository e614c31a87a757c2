#include "data/dataset.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "comm/shared_bytes.h"
#include "data/foreign_file.h"
#include "data/image_block.h"
#include "data/shard_check.h"
#include "h5/file.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

using Clock = std::chrono::steady_clock;

/// To find chunks, HDF5 reads more of a file, and does not survive all that may lie there after a change. Between reads
/// of single images this much time may pass without a look at the file.
constexpr auto kLooksApart = std::chrono::seconds(1);

}  // namespace

struct Dataset::State {
  Path path;
  DatasetInfo info;
  std::vector<h5::File> files;             // one per shard
  std::vector<h5::Dataset> images;         // one per shard; released before the files
  std::optional<comm::SharedBytes> index;  // holds the next two, once per host
  std::span<int64_t> labels;
  std::span<uint32_t> checksums;                 // empty: a bare file without
  std::optional<OpenedFile> opened;              // a bare file, unless the checksums of its images prove more
  mutable std::atomic<Clock::rep> looked_at{0};  // when `opened` was last compared
  uint64_t chunk_bytes = 0;                      // of a bare file's images; 0 without chunks
  bool channels_first = false;
  int64_t num_classes = 0;
  std::string content_hash;
  std::shared_ptr<const int> lease = std::make_shared<int>();

  void open_folder(comm::Communicator& comm);
  void open_file(comm::Communicator& comm, const DatasetOptions& options);
  void load_arrays(comm::Communicator& comm);
  void make_index(comm::Communicator& comm, bool has_labels, bool has_checksums);
  void share_index(comm::Communicator& comm);
  void check_labels();
  void hash_content();
  void expect_unchanged() const;
  void read_from_shard(std::size_t shard, int64_t first, int64_t count, std::span<std::byte> out) const;
  void read_and_check(std::size_t shard, int64_t first, int64_t count, std::span<std::byte> out) const;
};

namespace {

h5::Element element_of(base::DType dtype) { return dtype == base::DType::u8 ? h5::Element::u8 : h5::Element::f32; }

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
    state->labels = {};
    state->num_classes = 0;
    std::erase_if(state->info.fields, [](const Field& field) { return field.role == FieldRole::labels; });
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
      images.push_back(files[s].dataset(info.image_field().path));
      check_shard_images(images.back(), info, info.shards[s]);
    }
  });
  load_arrays(comm);
}

void Dataset::State::make_index(comm::Communicator& comm, bool has_labels, bool has_checksums) {
  const auto images_of_set = static_cast<std::size_t>(info.count);
  const std::size_t label_bytes = has_labels ? images_of_set * sizeof(int64_t) : 0;
  const std::size_t checksum_bytes = has_checksums ? images_of_set * sizeof(uint32_t) : 0;
  index.emplace(comm, static_cast<int64_t>(label_bytes + checksum_bytes));
  std::byte* const begin = index->bytes().data();
  labels = {reinterpret_cast<int64_t*>(begin), has_labels ? images_of_set : 0};
  checksums = {reinterpret_cast<uint32_t*>(begin + label_bytes), has_checksums ? images_of_set : 0};
}

/// Checksums and labels: each shard's are read by one rank and given to all.
void Dataset::State::load_arrays(comm::Communicator& comm) {
  make_index(comm, info.has_labels(), /*has_checksums=*/true);
  std::vector<h5::Dataset> checksum_arrays;
  std::vector<h5::Dataset> label_arrays;
  comm::agree(comm, [&] {
    for (std::size_t s = 0; s < files.size(); ++s) {
      checksum_arrays.push_back(files[s].dataset("/checksums"));
      check_shard_rows(checksum_arrays.back(), h5::Element::u32, info.shards[s].count);
      if (!info.has_labels()) continue;
      label_arrays.push_back(files[s].dataset(info.fields[info.find(FieldRole::labels)].path));
      check_shard_rows(label_arrays.back(), h5::Element::i64, info.shards[s].count);
    }
  });
  comm::agree(comm, [&] {
    for (auto s = static_cast<std::size_t>(comm.rank()); s < files.size(); s += static_cast<std::size_t>(comm.size())) {
      const auto first = static_cast<std::size_t>(info.shards[s].first);
      const auto count = static_cast<std::size_t>(info.shards[s].count);
      checksum_arrays[s].read_rows(0, info.shards[s].count, std::as_writable_bytes(checksums.subspan(first, count)));
      if (!info.has_labels()) continue;
      label_arrays[s].read_rows(0, info.shards[s].count, std::as_writable_bytes(labels.subspan(first, count)));
    }
  });
  share_index(comm);
}

void Dataset::State::share_index(comm::Communicator& comm) {
  std::vector<comm::SharedBytes::Part> parts;
  const auto add = [&](const auto& values, std::size_t shard) {
    const ShardInfo& one = info.shards[shard];
    const auto part = std::as_bytes(values.subspan(static_cast<std::size_t>(one.first))).data() - index->bytes().data();
    const auto bytes = one.count * static_cast<int64_t>(sizeof(values[0]));
    parts.push_back({part, part + bytes, static_cast<int>(shard % static_cast<std::size_t>(comm.size()))});
  };
  for (std::size_t s = 0; s < info.shards.size(); ++s) {
    if (!checksums.empty()) add(checksums, s);
    if (!labels.empty()) add(labels, s);
  }
  index->spread(parts);
}

void Dataset::State::open_file(comm::Communicator& comm, const DatasetOptions& options) {
  const std::string tried = comm::agree_on_root(comm, [&] {
    const OpenedFile before = OpenedFile::of(path);
    try_foreign_file(path, options);
    return before.text();
  });
  files = h5::File::open_parallel(comm, std::span(&path, 1));
  comm::agree(comm, [&] {
    opened = OpenedFile::of(path);
    opened->expect_like(path, tried);
  });
  BareArrays arrays;
  comm::agree(comm, [&] {
    arrays = open_bare_arrays(files.front(), options);
    chunk_bytes = arrays.images->chunk_bytes();
  });
  info = std::move(arrays.info);
  channels_first = arrays.channels_first;
  make_index(comm, static_cast<bool>(arrays.labels), static_cast<bool>(arrays.checksums));
  comm::agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (arrays.labels) arrays.labels->read_integers(0, info.count, labels);
    if (arrays.checksums) arrays.checksums->read_rows(0, info.count, std::as_writable_bytes(checksums));
    opened->expect_unchanged(path);
  });
  share_index(comm);
  if (!checksums.empty() && chunk_bytes == 0) opened.reset();
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
  const ImageFormat image = info.image();
  base::Sha256 digest;
  digest.update(fmt::format("ddpm dataset content 1\n{} {} {} {} {} {} {}\n", info.count, image.height, image.width,
                            image.channels, h5::name_of(element_of(image.dtype)), info.normalization().scale,
                            info.normalization().offset));
  for (const std::string& name : info.class_names) digest.update(fmt::format("{} {}\n", name.size(), name));
  digest.update(fmt::format("labels {}\n", labels.size()));
  digest.update(std::as_bytes(labels));
  digest.update(checksums.empty() ? fmt::format("bytes {}\n", info.shards.front().size) : "checksums\n");
  digest.update(std::as_bytes(checksums));
  content_hash = digest.hex();
}

void Dataset::State::expect_unchanged() const {
  if (!opened) return;
  opened->expect_unchanged(path);
  looked_at = Clock::now().time_since_epoch().count();
}

/// A read that fails says something of its images only where the machine works and the file is still the same.
void Dataset::State::read_from_shard(std::size_t shard, int64_t first, int64_t count, std::span<std::byte> out) const {
  const auto since_look = Clock::now().time_since_epoch() - Clock::duration(looked_at.load());
  if (chunk_bytes > 0 && since_look >= kLooksApart) expect_unchanged();
  try {
    read_and_check(shard, first, count, out);
  } catch (const base::DatasetAccessError&) {
    throw;
  } catch (const DatasetError& error) {
    expect_unchanged();
    if (const auto begin = images[shard].file_offset()) {
      expect_readable(files[shard].path(), *begin + static_cast<uint64_t>(first) * info.image().bytes(), out.size());
    }
    throw ImageError("{}", error.what());
  }
}

void Dataset::State::read_and_check(std::size_t shard, int64_t first, int64_t count, std::span<std::byte> out) const {
  const ImageFormat image = info.image();
  const int64_t first_in_set = info.shards[shard].first + first;
  const BlockOrigin origin{images[shard].label(), first, first_in_set};
  std::vector<std::byte> stored(channels_first ? out.size() : 0);
  const std::span<std::byte> target = channels_first ? std::span(stored) : out;
  images[shard].read_rows(first, count, target);
  if (!checksums.empty()) {
    const auto wanted = checksums.subspan(static_cast<std::size_t>(first_in_set));
    require_checksums(target, image, wanted.first(static_cast<std::size_t>(count)), origin);
  }
  if (channels_first) to_channels_last(stored, image, out);
  if (image.dtype == base::DType::f32) require_finite(out, image, origin);
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
uint64_t Dataset::bytes_per_read() const { return std::max<uint64_t>(image().bytes(), state_->chunk_bytes); }
const std::string& Dataset::content_hash() const { return state_->content_hash; }

void Dataset::read_block(int64_t first, int64_t count, std::span<std::byte> out) const {
  read_unconfirmed(first, count, out);
  expect_unchanged();
}

void Dataset::expect_unchanged() const { state_->expect_unchanged(); }

void Dataset::read_unconfirmed(int64_t first, int64_t count, std::span<std::byte> out) const {
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

std::vector<std::vector<std::byte>> Dataset::room_for(std::span<const int64_t> indices) const {
  std::vector<std::vector<std::byte>> values;
  for (const Field& field : fields()) {
    auto& room = values.emplace_back(indices.size() * field.bytes());
    if (field.role != FieldRole::labels) continue;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      std::memcpy(&room[i * sizeof(int64_t)], &labels()[static_cast<std::size_t>(indices[i])], sizeof(int64_t));
    }
  }
  return values;
}

std::shared_ptr<const void> Dataset::lease() const { return state_->lease; }

void Dataset::close(comm::Communicator& comm) {
  DDPM_CHECK(state_->lease.use_count() == 1, "{} is closed while {} still read it", path().string(),
             base::counted(state_->lease.use_count() - 1, "thread"));
  comm::agree(comm, [&] {
    state_->images.clear();
    for (h5::File& file : state_->files) file.close();
  });
  state_->files.clear();
  state_->labels = {};
  state_->checksums = {};
  state_->index->close();
}

}  // namespace ddpm::data
