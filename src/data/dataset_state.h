// Inside src/data: an open dataset, between the files that open it and those that read it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/shared_bytes.h"
#include "data/bare_file.h"
#include "data/dataset.h"
#include "data/foreign_file.h"
#include "data/image_block.h"
#include "data/rows.h"
#include "h5/file.h"

namespace ddpm::data {

/// A part of the index: what the ranks of a host hold once.
struct IndexPart {
  int64_t begin = 0;
  int64_t row_bytes = 0;  ///< of one image; 0: there is none
};

/// One field of each image.
struct Column {
  std::vector<std::unique_ptr<Rows>> shards = {};  ///< of what is read in blocks; released before the files
  uint64_t chunk_bytes = 0;                        ///< of a bare file's array; 0 without chunks
  IndexPart held = {};                             ///< the values of all images, of what is not read in blocks
  IndexPart checksums = {};                        ///< the CRC-32C of each image's values; none in a bare file without
};

/// What is asked of the values that are read, beside their digests.
enum class Wanted : uint8_t { finite, any };

struct Dataset::State {
  using Clock = std::chrono::steady_clock;

  Path path;
  std::vector<Path> sources;
  std::vector<std::string> names;         // of the sources
  std::vector<ImageOrder::Part> parts;    // one for each source
  std::vector<std::size_t> first_shards;  // of the sources
  std::vector<Path> paths;                // of `files`
  DatasetInfo info;
  std::vector<h5::File> files;      // one per shard; released after the rows in `columns`
  std::vector<Field> fields;        // those of info.fields that each image has, in their order
  std::vector<Column> columns;      // of `fields`
  std::vector<Field> set_fields;    // the others
  std::vector<int64_t> set_begins;  // where their values lie in the index
  std::optional<comm::SharedBytes> index;
  std::span<int64_t> labels;                       // in the index
  std::vector<OpenedFile> opened;                  // bare files, unless the checksums of their images prove more
  mutable std::vector<std::atomic<bool>> touched;  // which of them were read since they were compared
  std::vector<std::size_t> last_read;              // of each of them, the last one that its pairs are read from
  mutable std::mutex look;                         // held while they are
  std::string description;                         // how foreign files are read; part of what the images are
  std::vector<bool> periodic;                      // the axes of the images; empty: nobody knows
  mutable std::atomic<Clock::rep> looked_at{0};    // when `opened` was last compared
  int64_t num_classes = 0;
  std::string content_hash;
  std::shared_ptr<const int> lease = std::make_shared<int>();

  void open_folders(comm::Communicator& comm);
  void open_files(comm::Communicator& comm, const DatasetOptions& options);
  void check_labels();
  void check_held() const;
  void hash_content();
  void forget_labels();

  [[nodiscard]] std::size_t place_of(FieldRole role) const;
  [[nodiscard]] std::span<std::byte> part(const IndexPart& part) const;
  [[nodiscard]] std::span<const uint32_t> checksums(const Column& column) const;
  [[nodiscard]] std::span<std::byte> set_values(std::size_t field) const;
  void expect_unchanged() const;
  void read(std::size_t field, int64_t first, int64_t count, std::span<std::byte> out,
            Wanted wanted = Wanted::finite) const;

 private:
  void open_untried(comm::Communicator& comm, const DatasetOptions& options);
  void load_files(const comm::Communicator& comm, std::vector<BareFile>& bare, bool summed);
  void sort_fields();
  void make_index(comm::Communicator& comm, const std::function<bool(const Field&)>& has_checksums);
  void share_index(comm::Communicator& comm);
  void load_folder_index(comm::Communicator& comm);
  void check_set_values(std::size_t field, const std::string& label) const;
  void read_from_shard(std::size_t field, std::size_t shard, int64_t first, int64_t count, std::span<std::byte> out,
                       Wanted wanted) const;
  void read_and_check(std::size_t field, std::size_t shard, int64_t first, int64_t count, std::span<std::byte> out,
                      Wanted wanted) const;
  void touch(std::size_t shard) const {
    for (std::size_t s = shard; s < touched.size() && s <= last_read[shard]; ++s) touched[s] = true;
  }
  [[nodiscard]] BlockMasks masks_of(int64_t first, int64_t count) const;
};

}  // namespace ddpm::data
