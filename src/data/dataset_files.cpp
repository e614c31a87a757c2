// Opening a dataset that is one bare file, or several foreign ones: nothing but the files says what they hold.
#include <algorithm>

#include "base/error.h"
#include "base/machine_memory.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "data/dataset_state.h"
#include "data/join_pairs.h"
#include "data/open_file.h"
#include "data/set_merge.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

/// Calls `work` with each of so many numbers that falls to this rank.
template <typename Work>
void share(const comm::Communicator& comm, std::size_t count, const Work& work) {
  for (auto s = static_cast<std::size_t>(comm.rank()); s < count; s += static_cast<std::size_t>(comm.size())) work(s);
}

/// The axes of all files have the same coordinates, in the same order, and the same boundaries.
void expect_same_axes(const BareFile& file, const BareFile& first, const std::string& name,
                      const std::string& first_name) {
  for (const auto& [axis, places] : file.coordinates) {
    const auto known = first.coordinates.find(axis);
    if (known == first.coordinates.end() || known->second == places) continue;
    const auto differs = std::ranges::mismatch(places, known->second);
    throw DatasetError("{}: its {} has other coordinates than that of {}: {} where {} is wanted, at place {}", name,
                       axis, first_name, *differs.in1, *differs.in2, differs.in1 - places.begin());
  }
  if (file.periodic == first.periodic) return;
  throw DatasetError("{}: its boundaries are not those of {}", name, first_name);
}

/// All that tells how files are read: it belongs to what the images are.
std::string described(const std::vector<BareFile>& bare) {
  std::string text;
  for (const BareFile& file : bare) text += file.description;
  if (text.empty()) return text;
  for (const auto& [axis, places] : bare.front().coordinates) {
    base::Sha256 digest;
    digest.update(std::as_bytes(std::span(places)));
    text += axis + " " + digest.hex() + "\n";
  }
  return text;
}

/// Reads what all images share: it must be the same in all files.
void read_set_values(std::vector<BareFile>& bare, const Field& field, std::span<std::byte> out) {
  bare.front().rows_of(field)->read_rows(0, 1, out);
  std::vector<std::byte> other(out.size());
  for (std::size_t s = 1; s < bare.size(); ++s) {
    const Rows& rows = *bare[s].rows_of(field);
    rows.read_rows(0, 1, other);
    expect_shared(other, rows.label(), out, bare.front().rows_of(field)->label());
  }
}

}  // namespace

/// Ranks that share nothing have rings of their own, of a size that each can afford.
void Dataset::State::make_ring(comm::Communicator& comm, int64_t mib) {
  constexpr int64_t kOwnBytes = int64_t{256} << 20U;
  constexpr int64_t kPartOfLimit = 8;
  if (mib == 0) return;
  const auto head = static_cast<int64_t>(h5::ChunkRing::head_bytes());
  const int64_t wanted = mib << 20U;
  int64_t own = std::min(wanted, comm.size() > 1 ? kOwnBytes : base::read_machine_memory().most() / 2);
  if (const auto limit = base::process_memory_limit()) own = std::min(own, *limit / kPartOfLimit);
  ring_bytes.emplace(comm, head + wanted, comm::SharedBytes::kWorthSharing, head + own);
  const std::span<std::byte> bytes = ring_bytes->bytes();
  if (ring_bytes->is_shared()) {
    if (comm.rank() == 0) std::ranges::fill(bytes.first(static_cast<std::size_t>(head)), std::byte{0});
    const comm::WrittenBytes zeros{.begin = 0, .end = head, .writer = 0};
    ring_bytes->spread({&zeros, 1});
  }
  ring.emplace(bytes);
}

/// What HDF5 will read of an adopted file is compared with its digests. Each other file is opened by one rank in a
/// child process first, since HDF5 does not survive every file.
void Dataset::State::open_untried(comm::Communicator& comm, const DatasetOptions& options) {
  for (const Path& each : paths) adopted.push_back(AdoptedFile::open(comm, each));
  std::vector<std::string> tried(paths.size());
  comm::agree(comm, [&] {
    share(comm, paths.size(), [&](std::size_t s) {
      const OpenedFile before = OpenedFile::of(paths[s]);
      if (!adopted[s]) try_foreign_file(paths[s], options);
      tried[s] = before.text();
    });
  });
  files = h5::File::open_parallel(comm, paths);
  make_ring(comm, options.chunk_cache_mib);
  for (std::size_t s = 0; s < files.size(); ++s) {
    files[s].unpack_with(options.threads);
    if (adopted[s]) files[s].compare_with(adopted[s]->digests());
    if (ring) files[s].share_chunks(*ring, s);
  }
  comm::agree(comm, [&] {
    for (const Path& each : paths) opened.push_back(OpenedFile::of(each));
    share(comm, paths.size(), [&](std::size_t s) { opened[s].expect_like(paths[s], tried[s]); });
  });
  touched = std::vector<std::atomic<bool>>(paths.size());
  const std::string seen = comm::agree_on_root(comm, [&] {
    std::string lines;
    for (const OpenedFile& each : opened) lines += each.text() + "\n";
    return lines;
  });
  comm::agree(comm, [&] {
    std::size_t at = 0;
    for (std::size_t s = 0; s < opened.size(); ++s) {
      const std::size_t end = seen.find('\n', at);
      opened[s].expect_like(paths[s], seen.substr(at, end - at));
      at = end + 1;
    }
  });
}

void Dataset::State::open_files(comm::Communicator& comm, const DatasetOptions& options) {
  paths = sources;
  open_untried(comm, options);
  std::vector<BareFile> bare;
  for (const h5::File& file : files) {
    // Looking into a file is collective in itself and every rank comes to it. One rank alone may fail in it: it keeps
    // that until all arrays are open (File::alone()), and the others hear it before they go to the next file.
    comm::agree(comm, [&] { bare.push_back(open_file(file, options)); });
  }
  comm::agree(comm, [&] {
    JoinedPairs joined = join_pairs(bare, options, path.string());
    last_read = std::move(joined.last);
    pairs_left_out = joined.left_out;
    info = bare.front().info;
    for (std::size_t s = 1; s < bare.size(); ++s) {
      const std::string first = paths.front().string();
      append_set(info, bare[s].info, first, paths[s].string());
      expect_same_axes(bare[s], bare.front(), paths[s].string(), first);
    }
  });
  parts = {{.count = info.count}};
  description = described(bare);
  reading = options;
  periodic = bare.front().periodic;
  sort_fields();
  const bool summed = std::ranges::all_of(bare, [](const BareFile& file) { return file.checksums.has_value(); });
  make_index(comm, [&](const Field& field) { return summed && field.role == FieldRole::image; });
  comm::agree(comm, [&] { load_files(comm, bare, summed); });
  share_index(comm);
  const bool proven = std::ranges::all_of(adopted, [](const auto& each) { return each.has_value(); }) &&
                      std::ranges::all_of(files, &h5::File::all_compared);
  const Column& images = columns[place_of(FieldRole::image)];
  const bool images_alone = std::ranges::count_if(fields, &Field::is_read_in_blocks) == 1;
  compares_opened = !proven && !(summed && images.chunk_bytes == 0 && images_alone);
}

/// Takes over what is read in blocks, and reads what is held: of each file by one rank.
void Dataset::State::load_files(const comm::Communicator& comm, std::vector<BareFile>& bare, bool summed) {
  share(comm, bare.size(), [&](std::size_t s) {
    const auto of_shard = [&](const IndexPart& all) {
      return part(all).subspan(static_cast<std::size_t>(info.shards[s].first * all.row_bytes),
                               static_cast<std::size_t>(info.shards[s].count * all.row_bytes));
    };
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (fields[f].is_read_in_blocks()) continue;
      bare[s].rows_of(fields[f])->read_rows(0, info.shards[s].count, of_shard(columns[f].held));
    }
    if (!summed) return;
    bare[s].checksums->read_rows(0, info.shards[s].count, of_shard(columns[place_of(FieldRole::image)].checksums));
  });
  for (std::size_t f = 0; comm.rank() == 0 && f < set_fields.size(); ++f) {
    read_set_values(bare, set_fields[f], set_values(f));
    check_set_values(f, bare.front().rows_of(set_fields[f])->label());
  }
  share(comm, bare.size(), [&](std::size_t s) { opened[s].expect_unchanged(paths[s]); });
  for (BareFile& file : bare) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (!fields[f].is_read_in_blocks()) continue;
      std::unique_ptr<Rows>& rows = file.rows_of(fields[f]);
      columns[f].chunk_bytes = std::max(columns[f].chunk_bytes, rows->chunk_bytes());
      columns[f].shards.push_back(std::move(rows));
    }
  }
}

}  // namespace ddpm::data
