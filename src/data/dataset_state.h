// Inside src/data: an open dataset, between the files that open it and those that read it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "comm/communicator.h"
#include "comm/shared_bytes.h"
#include "data/adopted_file.h"
#include "data/bare_file.h"
#include "data/dataset.h"
#include "data/foreign_file.h"
#include "data/image_block.h"
#include "data/rows.h"
#include "h5/chunk_ring.h"
#include "h5/file.h"
#include "layout/range.h"

namespace ddpm::data {

/// A part of the index: what the ranks of a host hold once.
struct IndexPart {
  int64_t begin = 0;
  int64_t row_bytes = 0;  ///< bytes of one image's row; 0: there is no such part
};

/// One field of each image.
struct Column {
  std::vector<std::unique_ptr<Rows>> shards = {};  ///< rows of each shard, if read in blocks; released before the files
  uint64_t chunk_bytes = 0;  ///< unpacked size of a chunk of a bare file's array; 0 without chunks
  IndexPart held = {};       ///< the values of all images, where the field is not read in blocks
  IndexPart checksums = {};  ///< the CRC-32C of each image's values; none in a bare file without
};

/// Throws DatasetError unless what all images share, read from `label`, is what was read from `first`.
void expect_shared(std::span<const std::byte> values, const std::string& label, std::span<const std::byte> wanted,
                   const std::string& first);

/// What is asked of the values that are read, beside their digests.
enum class Wanted : uint8_t { finite, any };

/// What this rank knows of images with checksums of which it has read windows.
struct Vouched {
  std::mutex mutex;
  std::set<std::pair<std::size_t, int64_t>> images = {};  ///< field and image: those that are what was written
  std::map<std::size_t, OpenedFile> files = {};           ///< shards, as they were before their first image was read
  std::set<std::size_t> read_since_look = {};             ///< shards
};

struct Dataset::State {
  Path path;
  std::vector<Path> sources;
  std::vector<std::string> names;         // name of each source, or the last part of its path
  std::vector<OrderedSet> parts;          // one for each source
  std::vector<std::size_t> first_shards;  // for each source, the place of its first shard in `paths`
  std::vector<Path> paths;                // where the file of each shard lies
  DatasetInfo info;
  std::vector<std::optional<AdoptedFile>> adopted;  // digests of bare files, one for each; released after `files`
  std::optional<comm::SharedBytes> ring_bytes;
  std::optional<h5::ChunkRing> ring;  // unpacked chunks of bare files, kept in ring_bytes; released after `files`
  std::vector<h5::File> files;        // one per shard; released after the rows in `columns`
  std::vector<Field> fields;          // those of info.fields that each image has, in their order
  std::vector<Column> columns;        // one for each of `fields`
  std::vector<Field> set_fields;      // the others
  std::vector<int64_t> set_begins;    // where their values lie in the index
  std::optional<comm::SharedBytes> index;
  std::optional<comm::SharedBytes> held_images;    // what hold() has read: fields that are read in blocks, one by one
  std::span<int64_t> labels;                       // in the index
  std::vector<OpenedFile> opened;                  // bare files
  bool compares_opened = true;                     // after reads; false where digests of the images prove more
  mutable std::vector<std::atomic<bool>> touched;  // which of `opened` were read since they were last compared
  std::vector<std::size_t> last_read;              // for each of `opened`, the last file that its pairs are read from
  mutable std::mutex look;                         // held while `opened` is compared
  DatasetOptions reading;                          // the options that open_files() was given
  std::string description;                         // how foreign files are read; part of what the images are
  int64_t pairs_left_out = 0;
  std::vector<bool> periodic;                          // the axes of the images; empty: nobody knows
  mutable std::atomic<base::Clock::rep> looked_at{0};  // when `opened` was last compared
  int64_t num_classes = 0;
  std::string content_hash;
  std::shared_ptr<const int> lease = std::make_shared<int>();
  std::unique_ptr<Vouched> vouched = std::make_unique<Vouched>();

  void open_folders(comm::Communicator& comm);
  void open_files(comm::Communicator& comm, const DatasetOptions& options);
  void hold(comm::Communicator& comm);
  void check_labels();
  void check_held() const;
  void hash_content();
  void forget_labels();

  [[nodiscard]] std::size_t place_of(FieldRole role) const;
  [[nodiscard]] std::span<std::byte> part(const IndexPart& part) const;
  [[nodiscard]] std::span<const uint32_t> checksums(const Column& column) const;
  [[nodiscard]] std::span<std::byte> set_values(std::size_t field) const;
  [[nodiscard]] std::vector<std::vector<std::byte>> room_for(std::span<const int64_t> indices,
                                                             const std::vector<Field>& read) const;
  void expect_unchanged() const;
  void read(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out,
            Wanted wanted = Wanted::finite) const;
  void read_window(std::size_t field, int64_t image, const WindowPlace& window, std::span<std::byte> out) const;

 private:
  void open_untried(comm::Communicator& comm, const DatasetOptions& options);
  void load_files(const comm::Communicator& comm, std::vector<BareFile>& bare, bool summed);
  void sort_fields();
  void make_index(comm::Communicator& comm, const std::function<bool(const Field&)>& has_checksums);
  void share_index(comm::Communicator& comm);
  void make_ring(comm::Communicator& comm, int64_t mib);
  void load_shard(std::size_t shard, base::Json& places);
  void load_set_values();
  void check_set_values(std::size_t field, const std::string& label) const;
  void read_from_shard(std::size_t field, std::size_t shard, int64_t first, int64_t count, std::span<std::byte> out,
                       Wanted wanted) const;
  void read_and_check(std::size_t field, std::size_t shard, int64_t first, int64_t count, std::span<std::byte> out,
                      Wanted wanted) const;
  void touch(std::size_t shard) const {
    for (std::size_t s = shard; s < touched.size() && s <= last_read[shard]; ++s) touched[s] = true;
  }
  void guarded(std::size_t field, std::size_t shard, const std::function<void()>& read) const;
  [[nodiscard]] BlockMasks masks_of(int64_t first, int64_t count) const;
  void read_and_check_window(std::size_t field, std::size_t shard, int64_t row, const WindowPlace& window,
                             std::span<std::byte> out) const;
  [[nodiscard]] BlockMasks masks_of(int64_t image, const WindowPlace& window) const;
  void read_into(std::size_t field, layout::Range range, std::span<std::byte> values) const;
  void vouch(std::size_t field, std::size_t shard, int64_t row) const;
  void expect_vouched_files() const;
};

}  // namespace ddpm::data
