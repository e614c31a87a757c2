#include "data/stage.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/counted.h"
#include "base/disk_space.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "base/lock_file.h"
#include "base/sha256.h"
#include "comm/collectives.h"

namespace ddpm::data {
namespace {

constexpr std::size_t kPiece = std::size_t{8} << 20;
constexpr std::size_t kNameDigits = 16;
constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;
constexpr const char* kLockFile = ".lock";

/// A set and its copy on this host.
struct Copy {
  Path from;
  Path to;
  std::string text;  // contents of dataset.json, which is written last: a copy that has one is whole
  DatasetInfo info;
};

Copy copy_of(const Path& from, const Path& stage, const std::string& text) {
  return {.from = from,
          .to = stage / ("ddpm-" + base::sha256_hex(text).substr(0, kNameDigits)),
          .text = text,
          .info = parse_dataset_info(text, (from / kDescriptionFile).string())};
}

std::string description_text(const Path& folder, const base::FileSystem& files) {
  return base::read_as<base::DatasetError>([&] {
    expect_stageable(folder);
    return files.read(folder / kDescriptionFile, kMaxTextBytes);
  });
}

bool is_there(const Path& path, uint64_t size, const base::FileSystem& files) {
  return files.exists(path) && files.file_size(path) == size;
}

/// Makes the folder, and removes from it what killed jobs have left unfinished. While the lock that is returned lives,
/// no other job of this host takes for such leftovers what the ranks of this one are copying.
std::unique_ptr<base::LockFile> enter(const Copy& copy, base::FileSystem& files) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  constexpr int kPauses = 3000;  // a minute: as long as removing takes
  files.create_directories(copy.to);
  const Path place = copy.to / kLockFile;
  {
    const base::LockFile alone(files, place, base::Hold::alone);
    if (alone.held() && alone.excludes()) base::remove_leftovers_in(files, copy.to);
  }
  for (int pause = 0; pause < kPauses; ++pause) {
    auto shared = std::make_unique<base::LockFile>(files, place, base::Hold::shared);
    if (shared->held()) return shared;
    std::this_thread::sleep_for(kPause);
  }
  throw base::OutputError("{}: another process holds {} all the time; wait for it or end it", copy.to.string(),
                          kLockFile);
}

/// Throws where there is no room for what the folder lacks.
void expect_room(const Copy& copy, base::FileSystem& files) {
  uint64_t missing = 0;
  for (const ShardInfo& shard : copy.info.shards) {
    if (!is_there(copy.to / shard.file, shard.size, files)) missing += shard.size;
  }
  if (missing > 0) base::expect_room(files, copy.to, missing, fmt::format("what is copied of {}", copy.from.string()));
}

void copy_shard(const Copy& copy, const ShardInfo& shard, base::FileSystem& files) {
  const Path from = copy.from / shard.file;
  if (is_there(copy.to / shard.file, shard.size, files)) return;
  base::StagedPath made(files, copy.to / shard.file);
  const auto output = files.create_exclusive(made.path());
  base::Sha256 digest;
  uint64_t size = 0;
  std::vector<std::byte> piece(kPiece);
  const base::InputFile input(from);
  while (const std::size_t got = input.read_up_to(size, piece)) {
    const auto bytes = std::span(piece).first(got);
    digest.update(bytes);
    output->write(bytes);
    size += got;
  }
  if (const std::string seen = digest.hex(); seen != shard.sha256) {
    throw base::DatasetError("{}: its SHA-256 is {}, {} was written; the file is damaged", from.string(), seen,
                             shard.sha256);
  }
  output->sync();
  output->close();
  made.publish();
}

}  // namespace

void expect_stageable(const Path& set) {
  if (base::kind_of(set) == base::FileKind::folder) return;
  throw base::DatasetError("{}: data.stage is for dataset folders, whose bytes have digests", set.string());
}

std::vector<Dataset::Source> stage_sets(comm::Communicator& comm, const HostRank& host,
                                        const std::vector<Dataset::Source>& sources, const Path& stage,
                                        base::FileSystem& files, const base::Logger& log) {
  std::vector<Dataset::Source> staged;
  for (const Dataset::Source& source : sources) {
    const std::string text = comm::agree_on_root(comm, [&] { return description_text(source.path, files); });
    Copy copy;
    bool whole = false;
    std::unique_ptr<base::LockFile> lock;  // of the first rank of a host, while its ranks copy
    comm::agree(comm, [&] {
      copy = copy_of(source.path, stage, text);
      whole = files.exists(copy.to / kDescriptionFile) &&
              std::ranges::all_of(copy.info.shards, [&](const ShardInfo& shard) {
                return is_there(copy.to / shard.file, shard.size, files);
              });
      if (whole || host.rank != 0) return;
      lock = enter(copy, files);
      expect_room(copy, files);
    });
    const double begin = base::steady_seconds();
    comm::agree(comm, [&] {
      for (auto s = static_cast<std::size_t>(host.rank); !whole && s < copy.info.shards.size();
           s += static_cast<std::size_t>(host.size)) {
        copy_shard(copy, copy.info.shards[s], files);
      }
    });
    comm::agree(comm, [&] {
      if (!whole && host.rank == 0) base::write_atomically(files, copy.to / kDescriptionFile, copy.text);
    });
    log.info("{} {} {}{}", source.path.string(), whole ? "was copied before to" : "was copied to", copy.to.string(),
             whole ? "" : fmt::format(" in {:.1f} s", base::steady_seconds() - begin));
    staged.push_back({.path = copy.to, .weight = source.weight, .name = source.path.filename().string()});
  }
  return staged;
}

}  // namespace ddpm::data
