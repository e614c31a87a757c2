// Unfinished and remove_unfinished() of base/file_system.h.
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "base/bounded_work.h"
#include "base/error.h"
#include "base/file_system.h"

namespace ddpm::base {
namespace {

/// A file system that hangs must not keep a process from its end.
constexpr auto kPatience = std::chrono::seconds(2);

struct Entry {
  FileSystem& files;
  Path path;
};

std::mutex mutex;
uint64_t next_id = 0;
std::map<uint64_t, Entry> entries;

void remove_while_it_grows(const Entry& entry) {
  constexpr int kAttempts = 5;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    try {
      return entry.files.remove_all(entry.path);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): what ends the process is told, and this is not
    }
  }
}

void remove_all() {
  const std::lock_guard lock(mutex);
  for (const auto& [id, entry] : entries) remove_while_it_grows(entry);
}

}  // namespace

Unfinished::Unfinished(FileSystem& files, Path path) {
  const std::lock_guard lock(mutex);
  id_ = next_id++;
  entries.emplace(id_, Entry{files, std::move(path)});
}

Unfinished::~Unfinished() {
  const std::lock_guard lock(mutex);
  entries.erase(id_);
}

void remove_unfinished() { work_for_at_most(kPatience, remove_all); }

}  // namespace ddpm::base
