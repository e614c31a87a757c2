#include "data/prepare/folder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "data/prepare/packed_fields.h"

namespace ddpm::data::prepare {
namespace {

using base::FileKind;

class Walker {
 public:
  Walker(base::Path root, FolderListing& listing) : root_(std::move(root)), listing_(listing) {}

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
        listing_.skipped.push_back({relative, ending + " files are not read, PNG and JPEG are"});
      }
    } else if (kind == FileKind::regular) {
      listing_.images.push_back(relative);
    } else {
      listing_.skipped.push_back({relative, "not a regular file"});
    }
  }

  /// Whatever its name is: a folder of pictures may have been behind it.
  void leave_out_link(const std::string& relative) {
    if (!base::posix_file_system()->exists(root_ / relative)) {
      throw base::DatasetError("{}: is gone since its folder was listed", (root_ / relative).string());
    }
    listing_.skipped.push_back({relative, "a link that leads nowhere"});
  }

  base::Path root_;
  FolderListing& listing_;
  std::vector<base::FileIdentity> above_;
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
  base::read_as<base::DatasetError>([&] {
    if (base::kind_of(root) != FileKind::folder) {
      throw base::DatasetError("{}: not a folder, wanted one with PNG or JPEG files", root.string());
    }
    Walker(root, listing).walk("");
  });
  std::sort(listing.images.begin(), listing.images.end());
  listing.class_names = classes_of(listing.images);
  return listing;
}

std::string pack(const FolderListing& listing) {
  FieldWriter fields;
  fields.add(std::ssize(listing.other_files));
  for (const auto& [ending, count] : listing.other_files) {
    fields.add(ending);
    fields.add(count);
  }
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
  for (int64_t endings = fields.number(); endings > 0; --endings) {
    const std::string ending = fields.text();
    listing.other_files[ending] = fields.number();
  }
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
