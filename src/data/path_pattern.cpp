#include "data/path_pattern.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include <fnmatch.h>

#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "base/shortened.h"
#include "data/adopted_file.h"

namespace ddpm::data {
namespace {

using base::Path;

std::vector<Path> entries_like(const Path& folder, const std::string& pattern, bool folders) {
  const std::vector<base::FolderEntry> entries = base::folder_entries(folder.empty() ? Path(".") : folder);
  std::set<std::string> digests;  // what `ddpm data adopt` makes of the other files, if it has
  for (const base::FolderEntry& entry : entries) digests.insert(adoption_of(entry.name).string());
  std::vector<Path> found;
  for (const base::FolderEntry& entry : entries) {
    if (::fnmatch(pattern.c_str(), entry.name.c_str(), FNM_PERIOD) != 0 || digests.contains(entry.name)) continue;
    const Path path = folder / entry.name;
    if (!folders || base::kind_of(path) == base::FileKind::folder) found.push_back(path);
  }
  return found;
}

std::vector<Path> expanded(const Path& pattern) {
  std::vector<Path> found = {Path()};
  for (auto part = pattern.begin(); part != pattern.end(); ++part) {
    const bool is_last = std::next(part) == pattern.end();
    std::vector<Path> next;
    for (const Path& folder : found) {
      if (is_pattern(*part)) {
        std::ranges::copy(entries_like(folder, part->string(), !is_last), std::back_inserter(next));
      } else if (const Path path = folder / *part; base::is_there(path)) {
        next.push_back(path);
      }
    }
    found = std::move(next);
  }
  std::ranges::sort(found, {}, [](const Path& path) { return path.native(); });
  return found;
}

}  // namespace

bool is_pattern(const Path& path) { return path.native().find_first_of("*?[") != std::string::npos; }

std::vector<Path> matching_paths(const Path& pattern) {
  return base::read_as<base::DatasetError>([&]() -> std::vector<Path> {
    if (!is_pattern(pattern) || base::is_there(pattern)) return {pattern};
    std::vector<Path> found = expanded(pattern);
    if (!found.empty()) return found;
    throw base::DatasetError("{}: no file has a name like this",
                             base::shortened(pattern.string(), base::kLongestShownName));
  });
}

}  // namespace ddpm::data
