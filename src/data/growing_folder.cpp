#include "data/growing_folder.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/sha256.h"
#include "base/shortened.h"
#include "data/format.h"

namespace ddpm::data {
namespace {

constexpr std::string_view kNotes = "journal";
/// What all shards were made by, in lines: among the notes, and later in the set.
constexpr const char* kMadeBy = "made-by.txt";
constexpr int64_t kMostMadeBy = int64_t{1} << 26;
constexpr std::size_t kMostShown = 120;

/// A line, or where what `differs` lies far inside a long one, its first word and what is around that place.
std::string shown(std::string_view line, std::size_t differs) {
  constexpr std::size_t kAround = 20;
  if (line.size() <= kMostShown || differs + kAround <= kMostShown) {
    return base::shortened(std::string(line), kMostShown);
  }
  std::size_t begin = differs - kAround;
  while (begin > 0 && (static_cast<unsigned char>(line[begin]) & 0xC0U) == 0x80U) --begin;  // not inside a character
  const std::size_t word = line.find(' ');
  const std::string_view head = word < kAround ? line.substr(0, word + 1) : std::string_view();
  return fmt::format("{}...{}", head, base::shortened(std::string(line.substr(begin)), kMostShown));
}

/// The first line in which the texts differ: what was, and what is now.
std::pair<std::string, std::string> first_difference(std::string_view before, std::string_view now) {
  for (;;) {
    const std::string_view one = before.substr(0, before.find('\n'));
    const std::string_view other = now.substr(0, now.find('\n'));
    if (one != other || one.size() == before.size() || other.size() == now.size()) {
      const auto differs = static_cast<std::size_t>(std::ranges::mismatch(one, other).in1 - one.begin());
      return {shown(one, differs), shown(other, differs)};
    }
    before.remove_prefix(one.size() + 1);
    now.remove_prefix(other.size() + 1);
  }
}

std::vector<std::string> usual_names(int64_t shards) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < shards; ++i) names.push_back(shard_file_name(i, shards));
  return names;
}

/// The folder that the name of a shard begins with; "" for none.
std::string folder_of(const std::string& name) {
  const std::size_t slash = name.find('/');
  return slash == std::string::npos ? std::string() : name.substr(0, slash);
}

}  // namespace

GrowingFolder::GrowingFolder(base::FileSystem& files, base::Path output, int64_t shards)
    : GrowingFolder(files, std::move(output), usual_names(shards)) {}

GrowingFolder::GrowingFolder(base::FileSystem& files, base::Path output, std::vector<std::string> shard_names)
    : files_(files), output_(std::move(output)), partial_(partial_of(output_)), names_(std::move(shard_names)) {}

base::Path GrowingFolder::partial_of(const base::Path& output) {
  return base::parent_of(output) / fmt::format(".{}.partial", output.filename().string());
}

base::Path GrowingFolder::shard_file(int64_t index) const {
  return partial_ / names_.at(static_cast<std::size_t>(index));
}

base::Path GrowingFolder::note_file(int64_t index) const {
  std::string name = names_.at(static_cast<std::size_t>(index));
  std::ranges::replace(name, '/', '-');
  return partial_ / kNotes / (name + ".json");
}

std::vector<std::string> GrowingFolder::subfolders() const {
  std::vector<std::string> folders;
  for (const std::string& name : names_) {
    const std::string folder = folder_of(name);
    if (!folder.empty() && std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
  }
  return folders;
}

void GrowingFolder::expect_name(const base::Path& output) {
  if (output.has_filename() && output.filename() != "..") return;
  throw base::ConfigError("--output {}: wanted the name of a new folder", output.string());
}

void GrowingFolder::refuse_existing(const base::FileSystem& files, const base::Path& output) {
  if (!files.exists(output)) return;
  throw base::OutputError("{}: exists already; a new dataset replaces none", output.string());
}

void GrowingFolder::clear_leftovers() {
  files_.create_directories(partial_ / kNotes);
  clear_leftovers_of("");
  for (const std::string& folder : subfolders()) {
    files_.create_directories(partial_ / folder);
    clear_leftovers_of(folder);
  }
}

/// Removes from one folder what is neither a shard nor holds some, nor the notes.
void GrowingFolder::clear_leftovers_of(const std::string& folder) {
  std::vector<std::string> wanted;
  for (const std::string& name : names_) {
    if (folder_of(name) == folder) wanted.push_back(folder.empty() ? name : name.substr(folder.size() + 1));
  }
  if (folder.empty()) {
    wanted.emplace_back(kNotes);
    for (const std::string& other : subfolders()) wanted.push_back(other);
  }
  std::ranges::sort(wanted);
  for (const std::string& name : files_.list(partial_ / folder)) {
    if (!std::ranges::binary_search(wanted, name)) files_.remove_all(partial_ / folder / name);
  }
}

void GrowingFolder::check_space(const NeededSpace& needed) const {
  const uint64_t bytes = static_cast<uint64_t>(needed.images) * needed.image_bytes;
  uint64_t available = files_.free_bytes(partial_);
  for (const std::string& name : names_) {
    if (files_.exists(partial_ / name)) available += files_.file_size(partial_ / name);
  }
  if (bytes <= available) return;
  throw base::OutputError("{}: {} of {} bytes each need {} bytes, the file system has {} left", partial_.string(),
                          base::counted(needed.images, "image"), needed.image_bytes, bytes, available);
}

void GrowingFolder::expect_made_by(std::string_view made_by) const {
  const base::Path file = partial_ / kNotes / kMadeBy;
  if (files_.exists(file)) {
    const std::string before = files_.read(file, kMostMadeBy);
    if (before == made_by) return;
    const auto is_note = [](const std::string& name) { return name.ends_with(".json"); };
    const int64_t finished = std::ranges::count_if(files_.list(file.parent_path()), is_note);
    if (finished > 0) {
      const auto [was, is] = first_difference(before, made_by);
      throw base::OutputError(
          "{}: {} finished there by a command with \"{}\", and this one has \"{}\"; wanted: the same command, or "
          "another --output, or that this folder is removed",
          partial_.string(), base::counted(finished, "shard"), was, is);
    }
  }
  files_.create_directories(file.parent_path());
  base::write_atomically(files_, file, made_by);
}

bool GrowingFolder::tells_command(const base::FileSystem& files, const base::Path& output) {
  return files.exists(output / kMadeBy);
}

std::optional<std::string> GrowingFolder::made_by(const base::FileSystem& files, const base::Path& output) {
  if (!tells_command(files, output)) return std::nullopt;
  return files.read(output / kMadeBy, kMostMadeBy);
}

void GrowingFolder::begin(const NeededSpace& needed, std::string_view made_by) {
  refuse_existing(files_, output_);
  files_.create_directories(base::parent_of(partial_));
  lock_.emplace(files_, partial_, base::Hold::alone);
  refuse_existing(files_, output_);  // as whoever had the lock may have left it
  const bool resumes = files_.exists(partial_);
  files_.create_directories(partial_);
  try {
    if (!made_by.empty()) expect_made_by(made_by);  // before shards of another number of them go
    clear_leftovers();
    check_space(needed);
  } catch (const base::OutputError&) {
    if (!resumes) discard();  // what an earlier command has done is kept
    throw;
  }
  lock_->share();
}

void GrowingFolder::join() {
  if (!lock_) lock_.emplace(files_, partial_, base::Hold::shared);
}

std::optional<base::Json> GrowingFolder::note_of(int64_t index, std::string_view fingerprint) const {
  const base::Path file = note_file(index);
  if (!files_.exists(file) || !files_.exists(shard_file(index))) return std::nullopt;
  try {
    const std::string text = files_.read(file, base::JsonLimits{}.max_bytes);
    const base::Json note = base::parse_json(text);
    if (note.at("fingerprint") != fingerprint) return std::nullopt;
    if (base::sha256_file(shard_file(index)) != note.at("sha256")) return std::nullopt;
    return note.at("shard");
  } catch (const base::AccessError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    return std::nullopt;  // whatever is wrong with the note, the shard is made anew
  }
}

void GrowingFolder::clear(int64_t index) {
  files_.remove_all(note_file(index));
  for (const char* suffix : {"", ".exact"}) files_.remove_all(shard_file(index).string() + suffix);
}

void GrowingFolder::refuse_for_memory(int64_t index) const {
  throw base::DatasetError("{}: there is not enough memory to make this shard; the same command continues with it",
                           shard_file(index).string());
}

void GrowingFolder::note(int64_t index, std::string_view fingerprint, std::string_view sha256,
                         std::string_view result) {
  base::write_atomically(
      files_, note_file(index),
      fmt::format("{{\"fingerprint\": \"{}\", \"sha256\": \"{}\", \"shard\": {}}}\n", fingerprint, sha256, result));
}

void GrowingFolder::discard() { files_.remove_all(partial_); }

void GrowingFolder::publish(Journal journal) {
  // A copy: until the folder has its name, a later command learns from the notes what is finished, and by which
  // command.
  const base::Path made_by = partial_ / kNotes / kMadeBy;
  if (files_.exists(made_by)) base::write_atomically(files_, partial_ / kMadeBy, files_.read(made_by, kMostMadeBy));
  for (const std::string& folder : subfolders()) files_.sync_directory(partial_ / folder);
  files_.sync_directory(partial_);
  refuse_existing(files_, output_);
  base::publish(files_, partial_, output_);
  if (journal == Journal::cleared) clear_notes(files_, output_);
}

void GrowingFolder::take_back(base::FileSystem& files, const base::Path& output) {
  if (!files.exists(output)) return;
  if (files.exists(partial_of(output))) return files.remove_all(output);
  files.rename(output, partial_of(output));
}

void GrowingFolder::clear_notes(base::FileSystem& files, const base::Path& output) {
  try {
    files.remove_all(output / kNotes);
  } catch (const base::OutputError&) {  // NOLINT(bugprone-empty-catch): the set is whole, and nobody reads its notes
  }
}

}  // namespace ddpm::data
