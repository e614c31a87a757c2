#include "data/prepare/folder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/input_file.h"
#include "data/prepare/packed_fields.h"

namespace ddpm::data::prepare {
namespace {

using base::FileKind;

class Walker {
 public:
  Walker(const base::FileSystem& files, base::Path root, FolderListing& listing)
      : files_(files), root_(std::move(root)), listing_(listing) {}

  /// Adds what lies in the folder `relative` ("" is the root); throws OutputError when it cannot be listed.
  void walk(const std::string& relative) {
    const base::Path path = root_ / relative;
    const base::FileIdentity id = base::look_at(path).identity;
    if (std::find(above_.begin(), above_.end(), id) != above_.end()) {
      listing_.skipped.push_back({relative, "a link to a folder that it lies in"});
      return;
    }
    above_.push_back(id);
    for (const base::FolderEntry& entry : base::folder_entries(path)) visit(relative, entry);
    above_.pop_back();
  }

 private:
  void visit(const std::string& folder, const base::FolderEntry& entry) {
    if (entry.name.front() == '.') return;
    const std::string relative = folder.empty() ? entry.name : folder + '/' + entry.name;
    const FileKind kind = entry.kind ? *entry.kind : base::kind_of(root_ / relative);
    if (kind == FileKind::folder) return walk(relative);
    if (kind == FileKind::absent) return leave_out_link(relative);
    const std::string ending = ending_of(entry.name);
    if (!is_read(ending)) {
      ++listing_.other_files[ending];
      if (is_unread_picture(ending)) {
        listing_.skipped.push_back({relative, fmt::format("{} files are not read, {} are", ending, kReadFormats)});
      }
    } else if (kind == FileKind::regular) {
      listing_.images.push_back(relative);
    } else {
      listing_.skipped.push_back({relative, "not a regular file"});
    }
  }

  /// Whatever its name is: a folder of pictures may have been behind it.
  void leave_out_link(const std::string& relative) {
    if (!files_.exists(root_ / relative)) {
      throw base::DatasetError("{}: is gone since its folder was listed", (root_ / relative).string());
    }
    listing_.skipped.push_back({relative, "a link that leads nowhere"});
  }

  const base::FileSystem& files_;
  base::Path root_;
  FolderListing& listing_;
  std::vector<base::FileIdentity> above_;
};

std::string_view top_folder(std::string_view path) {
  const std::size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

}  // namespace

std::vector<std::string> top_folders(const std::vector<std::string>& paths) {
  std::vector<std::string> folders;
  for (const std::string& path : paths) {
    const std::string_view folder = top_folder(path);
    if (!folder.empty() && (folders.empty() || folders.back() != folder)) folders.emplace_back(folder);
  }
  // Paths in order do not bring their folders in order ("a-b/x" comes before "a/x"), and others have no order.
  std::sort(folders.begin(), folders.end());
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  return folders;
}

int64_t top_folder_in(const std::vector<std::string>& folders, std::string_view path) {
  const std::string_view folder = top_folder(path);
  const auto found = std::lower_bound(folders.begin(), folders.end(), folder);
  return found != folders.end() && *found == folder ? found - folders.begin() : -1;
}

int64_t FolderListing::class_of(const std::string& path) const { return top_folder_in(class_names, path); }

FolderListing list_folder(const base::FileSystem& files, const base::Path& root) {
  FolderListing listing;
  base::read_as<base::DatasetError>([&] {
    if (base::kind_of(root) != FileKind::folder) {
      throw base::DatasetError("{}: not a folder, wanted one with {} files", root.string(), kReadFormats);
    }
    Walker(files, root, listing).walk("");
  });
  std::sort(listing.images.begin(), listing.images.end());
  listing.class_names = top_folders(listing.images);
  return listing;
}

std::string pack(const FolderListing& listing) {
  FieldWriter fields;
  fields.add(static_cast<int64_t>(listing.dtype));
  add(fields, listing.skipped, listing.other_files);
  for (const std::string& path : listing.images) fields.add(path);
  return fields.text();
}

FolderListing unpack_listing(const std::string& text) {
  FieldReader fields(text);
  FolderListing listing;
  listing.dtype = static_cast<base::DType>(fields.number());
  take(fields, listing.skipped, listing.other_files);
  while (!fields.done()) listing.images.push_back(fields.text());
  listing.class_names = top_folders(listing.images);
  return listing;
}

std::unique_ptr<ImageSource> read_folder(const base::FileSystem& files, base::Path root, FolderListing listing,
                                         bool labels, const PictureLimits& limits) {
  PictureFiles pictures;
  if (labels) {
    for (const std::string& path : listing.images) pictures.labels.push_back(listing.class_of(path));
  }
  pictures.set = {.source = root.string(),
                  .dtype = listing.dtype,
                  .has_labels = labels,
                  .classes = std::ssize(listing.class_names),
                  .class_names = std::move(listing.class_names),
                  .left_out = std::move(listing.skipped),
                  .other_files = std::move(listing.other_files)};
  pictures.root = std::move(root);
  pictures.names = std::move(listing.images);
  pictures.no_label = kInNoClass;
  return read_pictures(files, std::move(pictures), limits);
}

}  // namespace ddpm::data::prepare
