#include "data/prepare/folder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "base/error.h"
#include "base/pulse.h"
#include "data/prepare/packed_fields.h"

namespace ddpm::data::prepare {
namespace {

namespace fs = std::filesystem;

bool has_image_extension(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string extension(name.substr(dot + 1));
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return extension == "png" || extension == "jpg" || extension == "jpeg";
}

/// Which folder it is, whatever path leads there.
using FolderId = std::pair<dev_t, ino_t>;

class Walker {
 public:
  Walker(base::Path root, FolderListing& listing) : root_(std::move(root)), listing_(listing) {}

  /// Adds what lies in the folder `relative` ("" is the root); throws std::system_error when it cannot be read.
  void walk(const std::string& relative) {
    const base::Path path = root_ / relative;
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) throw std::system_error(errno, std::generic_category());
    const FolderId id{status.st_dev, status.st_ino};
    if (std::find(above_.begin(), above_.end(), id) != above_.end()) {
      listing_.skipped.push_back({relative, "a link to a folder that it lies in"});
      return;
    }
    above_.push_back(id);
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      visit(relative, entry);
      base::pulse();
    }
    above_.pop_back();
  }

 private:
  void visit(const std::string& folder, const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (name.front() == '.') return;
    const std::string relative = folder.empty() ? name : folder + '/' + name;
    std::error_code error;
    const fs::file_status status = entry.status(error);
    if (fs::is_directory(status)) return visit_folder(relative);
    if (!has_image_extension(name)) {
      ++listing_.other_files;
    } else if (fs::is_regular_file(status)) {
      listing_.images.push_back(relative);
    } else {
      const bool absent = status.type() == fs::file_type::not_found;
      if (absent && !error) error = std::make_error_code(std::errc::no_such_file_or_directory);
      listing_.skipped.push_back({relative, error ? error.message() : "not a regular file"});
    }
  }

  void visit_folder(const std::string& relative) {
    const std::size_t depth = above_.size();
    try {
      walk(relative);
    } catch (const std::system_error& error) {  // also filesystem_error, whose text holds the whole path
      above_.resize(depth);
      listing_.skipped.push_back({relative, "folder: " + error.code().message()});
    }
  }

  base::Path root_;
  FolderListing& listing_;
  std::vector<FolderId> above_;
};

std::string_view top_folder(std::string_view path) {
  const std::size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

std::vector<std::string> classes_of(const std::vector<std::string>& images) {
  std::vector<std::string> classes;
  for (const std::string& path : images) {
    const std::string_view folder = top_folder(path);
    if (!folder.empty() && (classes.empty() || classes.back() != folder)) classes.emplace_back(folder);
  }
  // Paths in order do not bring their folders in order: "a-b/x" comes before "a/x".
  std::sort(classes.begin(), classes.end());
  return classes;
}

}  // namespace

int64_t FolderListing::class_of(const std::string& path) const {
  const std::string_view folder = top_folder(path);
  const auto found = std::lower_bound(class_names.begin(), class_names.end(), folder);
  return found != class_names.end() && *found == folder ? found - class_names.begin() : -1;
}

FolderListing list_folder(const base::Path& root) {
  FolderListing listing;
  try {
    if (!fs::is_directory(root))
      throw base::DatasetError("{}: not a folder, wanted one with PNG or JPEG files", root.string());
    Walker(root, listing).walk("");
  } catch (const std::system_error& error) {
    throw base::DatasetError("{}: cannot list the folder: {}", root.string(), error.code().message());
  }
  std::sort(listing.images.begin(), listing.images.end());
  listing.class_names = classes_of(listing.images);
  return listing;
}

std::string pack(const FolderListing& listing) {
  FieldWriter fields;
  fields.add(listing.other_files);
  fields.add(std::ssize(listing.skipped));
  for (const Skipped& skipped : listing.skipped) {
    fields.add(skipped.path);
    fields.add(skipped.reason);
  }
  for (const std::string& path : listing.images) fields.add(path);
  return fields.text();
}

FolderListing unpack_listing(const std::string& text) {
  FieldReader fields(text);
  FolderListing listing;
  listing.other_files = fields.number();
  listing.skipped.resize(static_cast<std::size_t>(fields.number()));
  for (Skipped& skipped : listing.skipped) {
    skipped.path = fields.text();
    skipped.reason = fields.text();
  }
  while (!fields.done()) listing.images.push_back(fields.text());
  listing.class_names = classes_of(listing.images);
  return listing;
}

}  // namespace ddpm::data::prepare
