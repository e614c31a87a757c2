#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "data/prepare/archive.h"
#include "data/prepare/archive_file.h"
#include "data/prepare/endings.h"
#include "data/prepare/folder.h"
#include "data/prepare/packed_fields.h"
#include "data/prepare/webdataset.h"

namespace ddpm::data::prepare {
namespace {

/// Whether a file, or a folder that it lies in, has a name that begins with a dot.
bool is_hidden(std::string_view name) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (part.starts_with('.') && part != "." && part != "..") return true;
    name.remove_prefix(std::min(part.size() + 1, name.size()));
  }
  return false;
}

/// Looks through one archive, and adds its pictures to the set.
class Lister {
 public:
  Lister(ArchiveSet& set, int64_t archive, ArchiveLabels labels, const PictureLimits& limits,
         std::optional<base::DType>& dtype)
      : set_(set),
        archive_(archive),
        labels_(labels),
        limits_(limits),
        dtype_(dtype),
        file_(set.paths[static_cast<std::size_t>(archive)]),
        first_(set.pictures.size()) {
    set_.stamps.push_back(file_.stamp());
  }

  void list() {
    for (int64_t entry = 0; auto found = file_.next(); ++entry) {
      finish_picture();
      visit(*found, entry);
    }
    finish_picture();
    refuse_twins();
    if (labels_ != ArchiveLabels::kept) return;
    for (std::size_t i = first_; i < set_.pictures.size(); ++i) {
      const auto label = key_labels_.find(sample_key(set_.pictures[i].name));
      if (label != key_labels_.end()) set_.pictures[i].label = label->second;
    }
  }

 private:
  void visit(const ArchiveEntry& entry, int64_t place) {
    if (entry.name.empty() || entry.name.ends_with('/') || is_hidden(entry.name)) return;
    const std::string ending = ending_of(std::string_view(entry.name).substr(entry.name.rfind('/') + 1));
    if (is_read(ending)) return visit_picture(entry, place);
    if (labels_ == ArchiveLabels::kept && entry.regular && !entry.encrypted && visit_label(entry)) return;
    ++set_.set.other_files[ending];
    if (is_unread_picture(ending)) leave_out(entry, fmt::format("{} files are not read, {} are", ending, kReadFormats));
  }

  void visit_picture(const ArchiveEntry& entry, int64_t place) {
    if (entry.encrypted) return leave_out(entry, "is encrypted");
    if (!entry.regular) return leave_out(entry, "a link or another entry that is not a plain file");
    set_.pictures.push_back({.name = entry.name, .archive = archive_, .entry = place, .size = entry.size});
    open_ = true;
    if (dtype_ || entry.size > static_cast<int64_t>(limits_.max_file_bytes)) return;
    try {
      const auto bytes = file_.read(limits_.max_file_bytes);
      if (bytes) dtype_ = told_type(*bytes);
    } catch (const base::DatasetAccessError&) {
      throw;
    } catch (const base::DatasetError&) {
      // What is damaged tells no type. It is left out when its turn comes.
    }
  }

  /// Whether the entry is a label.
  bool visit_label(const ArchiveEntry& entry) {
    constexpr uint64_t kMostBytes = uint64_t{1} << 20U;
    const std::string_view kind = std::string_view(entry.name).substr(sample_key(entry.name).size());
    if (kind != ".cls" && kind != ".json") return false;
    const auto text = file_.read(kMostBytes);
    const std::string key(sample_key(entry.name));
    if (kind == ".cls") {
      const auto label = text ? label_of_cls(*text) : std::nullopt;
      if (!label) {
        throw base::DatasetError("{}: {} holds {:?}, wanted a whole number from 0 to {}", file_.path().string(),
                                 entry.name, text ? text->substr(0, 40) : "more than a number", kLargestLabel);
      }
      key_labels_[key] = *label;
    } else if (const auto label = text ? label_of_json(*text) : std::nullopt) {
      key_labels_.try_emplace(key, *label);
    }
    return true;
  }

  void leave_out(const ArchiveEntry& entry, std::string reason) {
    set_.set.left_out.push_back({shown_name(set_.paths, archive_, entry.name), std::move(reason)});
  }

  /// The picture that was visited last ends, padded, where the next header begins.
  void finish_picture() {
    constexpr uint64_t kPadding = 512;
    if (!std::exchange(open_, false) || !file_.is_plain_tar()) return;
    ArchivedPicture& picture = set_.pictures.back();
    const auto size = static_cast<uint64_t>(picture.size);
    const uint64_t end = file_.position();
    const uint64_t padded = (size + kPadding - 1) / kPadding * kPadding;
    if (padded > end || end > static_cast<uint64_t>(file_.stamp().size)) {
      throw base::DatasetError("{}: the archive ends within {}", file_.path().string(), picture.name);
    }
    picture.offset = static_cast<int64_t>(end - padded);
  }

  void refuse_twins() const {
    std::vector<std::string_view> names;
    for (std::size_t i = first_; i < set_.pictures.size(); ++i) names.push_back(set_.pictures[i].name);
    std::ranges::sort(names);
    const auto twin = std::ranges::adjacent_find(names);
    if (twin == names.end()) return;
    throw base::DatasetError("{}: holds {} twice, wanted each name once", file_.path().string(), *twin);
  }

  ArchiveSet& set_;
  int64_t archive_;
  ArchiveLabels labels_;
  const PictureLimits& limits_;
  std::optional<base::DType>& dtype_;
  ArchiveFile file_;
  std::size_t first_;  // place in the set of this archive's first picture
  bool open_ = false;  // where the last picture ends is not known yet
  std::map<std::string, int64_t, std::less<>> key_labels_;
};

/// The labels of the set as a whole.
void settle_labels(ArchiveSet& set, ArchiveLabels labels) {
  if (labels == ArchiveLabels::folder) {
    std::vector<std::string> names;
    for (const ArchivedPicture& picture : set.pictures) names.push_back(picture.name);
    set.set.class_names = top_folders(names);
    for (ArchivedPicture& picture : set.pictures) picture.label = top_folder_in(set.set.class_names, picture.name);
    set.set.classes = std::ssize(set.set.class_names);
    set.set.has_labels = true;
    set.no_label = kInNoClass;
    return;
  }
  for (const ArchivedPicture& picture : set.pictures) set.set.classes = std::max(set.set.classes, picture.label + 1);
  set.set.has_labels = set.set.classes > 0;
  set.no_label = "no label beside it: a .cls file, or a .json file with \"label\" or \"cls\"";
}

}  // namespace

ArchiveSet list_archives(const std::vector<base::Path>& paths, ArchiveLabels labels, const PictureLimits& limits) {
  ArchiveSet set;
  set.paths = paths;
  const std::string first = paths.front().string();
  set.set.source = paths.size() == 1 ? first : fmt::format("{} and {} more", first, paths.size() - 1);
  std::optional<base::DType> dtype;
  for (int64_t i = 0; i < std::ssize(paths); ++i) Lister(set, i, labels, limits, dtype).list();
  set.set.dtype = dtype.value_or(base::DType::u8);
  settle_labels(set, labels);
  return set;
}

std::string pack(const ArchiveSet& set) {
  FieldWriter fields;
  add(fields, set.set);
  fields.add(set.no_label);
  fields.add(std::ssize(set.paths));
  for (std::size_t i = 0; i < set.paths.size(); ++i) {
    fields.add(set.paths[i].string());
    for (const int64_t n : {set.stamps[i].size, set.stamps[i].seconds, set.stamps[i].nanoseconds}) fields.add(n);
  }
  for (const ArchivedPicture& picture : set.pictures) {
    fields.add(picture.name);
    for (const int64_t n : {picture.archive, picture.entry, picture.offset, picture.size, picture.label}) fields.add(n);
  }
  return fields.text();
}

ArchiveSet unpack_archives(const std::string& text) {
  FieldReader fields(text);
  ArchiveSet set;
  take(fields, set.set);
  set.no_label = fields.text();
  set.paths.resize(static_cast<std::size_t>(fields.number()));
  for (base::Path& path : set.paths) {
    path = fields.text();
    base::FileStamp& stamp = set.stamps.emplace_back();
    for (int64_t* n : {&stamp.size, &stamp.seconds, &stamp.nanoseconds}) *n = fields.number();
  }
  while (!fields.done()) {
    ArchivedPicture& picture = set.pictures.emplace_back();
    picture.name = fields.text();
    for (int64_t* n : {&picture.archive, &picture.entry, &picture.offset, &picture.size, &picture.label}) {
      *n = fields.number();
    }
  }
  return set;
}

}  // namespace ddpm::data::prepare
