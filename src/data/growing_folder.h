// A dataset's folder while ranks fill it, shard by shard.
//
// It grows in a hidden folder beside its place (.NAME.partial), which is renamed last: the output is whole or absent.
// Meanwhile .NAME.partial.lock keeps other jobs out. Each finished shard leaves a note in the folder with its digest
// and the fingerprint of what it was made from; a later command takes over the shards whose notes still hold. The notes
// go last, once the folder has its name: a command that is killed just before leaves them in the output, where nobody
// reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/json.h"
#include "data/folder_lock.h"

namespace ddpm::data {

/// What the images of a set take on disk.
struct NeededSpace {
  int64_t images = 0;
  uint64_t image_bytes = 0;
};

/// What becomes of the notes once the folder has its name.
enum class Journal : uint8_t { cleared, kept };

class GrowingFolder {
 public:
  /// The place of `output`, a plain path, with so many shards. `files` outlives the object.
  GrowingFolder(base::FileSystem& files, base::Path output, int64_t shards);
  /// The place of an output with shards of these names. A name may begin with a folder: "validation/...".
  GrowingFolder(base::FileSystem& files, base::Path output, std::vector<std::string> shard_names);

  /// Throws ConfigError for a path, given as --output, that does not end with the name of a folder.
  static void expect_name(const base::Path& output);
  /// Throws OutputError when there is such an output already.
  static void refuse_existing(const base::FileSystem& files, const base::Path& output);

  /// Makes the folder and keeps other jobs out. What an earlier command left there stays if it is a shard of as many or
  /// a note. One rank calls it before the others join(). Throws OutputError when the output exists, another job fills
  /// the folder, or the file system has less room than `needed`; and, where `made_by` is not empty, when shards are
  /// finished there of a command that differs in one of its lines: to make them again is for the user to decide.
  void begin(const NeededSpace& needed, std::string_view made_by = {});
  /// Holds the folder as the rank does that began. Throws OutputError when another job does.
  void join();

  [[nodiscard]] const base::Path& path() const { return partial_; }
  [[nodiscard]] int64_t shards() const { return std::ssize(names_); }
  [[nodiscard]] base::Path shard_file(int64_t index) const;

  /// What was noted of a finished shard. None when it was made from something else, or its file has changed. A machine
  /// that cannot read it just now throws AccessError: the shard may be whole.
  [[nodiscard]] std::optional<base::Json> note_of(int64_t index, std::string_view fingerprint) const;
  /// Removes what there is of a shard.
  void clear(int64_t index);
  /// Throws DatasetError: std::bad_alloc has ended the making of a shard.
  [[noreturn]] void refuse_for_memory(int64_t index) const;
  /// Notes a finished shard, whose file is on disk: `result` is JSON text, `sha256` the digest of the file.
  void note(int64_t index, std::string_view fingerprint, std::string_view sha256, std::string_view result);

  /// Removes the folder. One rank.
  void discard();
  /// Whether it is known by which text, that begin() was given, the output at `output` was made, and the text.
  static bool tells_command(const base::FileSystem& files, const base::Path& output);
  static std::optional<std::string> made_by(const base::FileSystem& files, const base::Path& output);
  /// Gives the folder, in which all is on disk, its name, and removes the notes; those that cannot be removed stay. One
  /// rank. Throws OutputError when the output exists by now; the notes are there then, and a later command takes over
  /// all shards.
  void publish(Journal journal = Journal::cleared);
  /// Has a command continue with an output whose notes were kept, as it does with shards of one that was killed.
  static void take_back(base::FileSystem& files, const base::Path& output);
  /// Removes the notes that a command left in its whole output because it was killed before it had removed them, or
  /// could not; so may this.
  static void clear_notes(base::FileSystem& files, const base::Path& output);

 private:
  [[nodiscard]] base::Path note_file(int64_t index) const;
  void expect_made_by(std::string_view made_by) const;
  void clear_leftovers();
  void clear_leftovers_of(const std::string& folder);
  [[nodiscard]] std::vector<std::string> subfolders() const;
  void check_space(const NeededSpace& needed) const;

  static base::Path partial_of(const base::Path& output);

  base::FileSystem& files_;
  base::Path output_;
  base::Path partial_;
  std::vector<std::string> names_;  // files of the shards, relative to the folder
  std::optional<FolderLock> lock_;
};

}  // namespace ddpm::data
