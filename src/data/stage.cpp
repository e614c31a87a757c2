#include "data/stage.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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
constexpr const char* kCopyPrefix = "ddpm-";
/// Lies in a copy of which a training has found something damaged.
constexpr const char* kDoubtFile = ".in-doubt";

/// A set and its copy on this host.
struct Copy {
  Path from;
  Path to;
  std::string text;  // contents of dataset.json, which is written last: a copy that has the same is whole
  DatasetInfo info;
};

/// What of a copy is there already.
enum class Found : uint8_t {
  whole,
  in_part,   ///< files that are there are as they should be
  in_doubt,  ///< any file may be damaged
};

Copy copy_of(const Path& from, const Path& stage, const std::string& text) {
  return {.from = from,
          .to = stage / (kCopyPrefix + base::sha256_hex(text).substr(0, kNameDigits)),
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

Found look_at(const Copy& copy, const base::FileSystem& files) {
  const Path description = copy.to / kDescriptionFile;
  if (files.exists(copy.to / kDoubtFile)) return Found::in_doubt;
  if (!files.exists(description)) return Found::in_part;
  if (!is_there(description, copy.text.size(), files) || files.read(description, kMaxTextBytes) != copy.text) {
    return Found::in_doubt;
  }
  const auto has = [&](const ShardInfo& shard) { return is_there(copy.to / shard.file, shard.size, files); };
  return std::ranges::all_of(copy.info.shards, has) ? Found::whole : Found::in_part;
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

/// Whether all bytes of the shard are in the copy as they should be.
bool is_intact(const Copy& copy, const ShardInfo& shard) {
  try {
    return base::sha256_file(copy.to / shard.file) == shard.sha256;
  } catch (const base::OutputError&) {  // the disk does not give it back
    return false;
  }
}

/// A shard that is there and damaged is replaced at once: who has the old file open keeps that.
void copy_shard(const Copy& copy, const ShardInfo& shard, Found found, base::FileSystem& files) {
  const Path from = copy.from / shard.file;
  if (is_there(copy.to / shard.file, shard.size, files) && (found != Found::in_doubt || is_intact(copy, shard))) return;
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

/// The copy in `stage` in whose files an error was found, by what the error says; empty where it was elsewhere.
Path copy_named_in(std::string_view error, const Path& stage) {
  const std::string begin = (stage / kCopyPrefix).string();
  const std::size_t at = error.find(begin);
  if (at == std::string_view::npos) return {};
  return fmt::format("{}{}", begin, error.substr(at + begin.size(), kNameDigits));
}

/// Marks the copy that an error names; returns the error with what comes of that.
std::string with_doubt(const std::string& error, const Path& stage, base::FileSystem& files) {
  const Path copy = copy_named_in(error, stage);
  if (copy.empty()) return error;
  try {
    files.open_append(copy / kDoubtFile)->close();
    return error + "; the next start compares the copy with its digests, and copies anew what differs";
  } catch (const base::OutputError&) {
    return fmt::format("{}; remove {}, which is a copy", error, copy.string());
  }
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
    Found found = Found::in_part;
    std::unique_ptr<base::LockFile> lock;  // of the first rank of a host, while its ranks copy
    comm::agree(comm, [&] {
      copy = copy_of(source.path, stage, text);
      if (host.rank != 0) return;
      found = look_at(copy, files);
      if (found == Found::whole) return;
      lock = enter(copy, files);
      expect_room(copy, files);
    });
    const double begin = base::steady_seconds();
    comm::agree(comm, [&] {
      // A rank that looks later than the first one compares its shards, too, where that one is to lift a doubt.
      if (host.rank != 0) found = look_at(copy, files);
      for (auto s = static_cast<std::size_t>(host.rank); found != Found::whole && s < copy.info.shards.size();
           s += static_cast<std::size_t>(host.size)) {
        copy_shard(copy, copy.info.shards[s], found, files);
      }
    });
    const bool whole = found == Found::whole;
    comm::agree(comm, [&] {
      if (whole || host.rank != 0) return;
      base::write_atomically(files, copy.to / kDescriptionFile, copy.text);
      // A doubt that was cast since is for the next start: nothing was compared on its account.
      if (found == Found::in_doubt) files.remove_all(copy.to / kDoubtFile);
    });
    log.info("{} {} {}{}", source.path.string(),
             whole                      ? "was copied before to"
             : found == Found::in_doubt ? "was copied anew, where its copy differed, to"
                                        : "was copied to",
             copy.to.string(), whole ? "" : fmt::format(" in {:.1f} s", base::steady_seconds() - begin));
    staged.push_back({.path = copy.to, .weight = source.weight, .name = source.path.filename().string()});
  }
  return staged;
}

void doubt_damaged_copies(const Path& stage, base::FileSystem& files, const std::function<void()>& work) {
  try {
    work();
  } catch (const comm::AgreedError& error) {
    // The rank that speaks is the one that has found it.
    if (error.code() != base::ExitCode::dataset || !error.speaks()) throw;
    throw comm::AgreedError(error.code(), with_doubt(error.what(), stage, files), error.failed_rank(), true,
                            error.is_access_failure());
  } catch (const base::DatasetError& error) {
    throw base::DatasetError("{}", with_doubt(error.what(), stage, files));
  }
}

}  // namespace ddpm::data
