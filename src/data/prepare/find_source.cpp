#include "data/prepare/find_source.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "base/named.h"
#include "data/prepare/cifar.h"
#include "data/prepare/idx.h"
#include "data/prepare/records.h"

namespace ddpm::data::prepare {
namespace {

constexpr std::string_view kFolderTag = "folder:";
constexpr std::string_view kRecordsTag = "records:";

bool is_folder(const base::Path& path) {
  return base::read_as<base::DatasetError>([&] { return base::kind_of(path); }) == base::FileKind::folder;
}

/// What lies in a folder instead of what is wanted.
std::string found_instead(const EndingCounts& other_files) {
  return other_files.empty() ? "it has no files" : "it has " + to_text(other_files);
}

/// Names become JSON strings in dataset.json.
void check_class_names(const std::vector<std::string>& names, std::string_view what) {
  for (const std::string& name : names) {
    try {
      static_cast<void>(base::Json(name).dump());
    } catch (const base::Json::exception&) {
      throw base::DatasetError("{}: {} is not UTF-8, as the name of a class must be", name, what);
    }
  }
}

/// The training files that `format` is published as, where the first of them lies in the folder; else none.
std::vector<base::Path> training_files(const base::Path& folder, SourceFormat format) {
  const auto first_of = [&](std::initializer_list<const char*> names) -> std::vector<base::Path> {
    for (const char* name : names) {
      if (is_there(folder / name)) return {folder / name};
    }
    return {};
  };
  if (format == SourceFormat::idx) return first_of({"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"});
  if (format == SourceFormat::cifar100) return first_of({"train.bin"});
  std::vector<base::Path> batches = first_of({"data_batch_1.bin"});
  for (int i = 2; !batches.empty() && i <= 5; ++i) {
    batches.push_back(folder / fmt::format("data_batch_{}.bin", i));
    if (is_there(batches.back())) continue;
    throw base::DatasetError(
        "{}: not there, wanted data_batch_1.bin to data_batch_5.bin; fewer can be named one by one",
        batches.back().string());
  }
  return batches;
}

/// The files that the folder stands for, and their format.
std::pair<SourceFormat, std::vector<base::Path>> files_of_folder(const base::Path& folder, SourceFormat wanted,
                                                                 const EndingCounts& other_files) {
  std::pair<SourceFormat, std::vector<base::Path>> found;
  for (const SourceFormat format : {SourceFormat::idx, SourceFormat::cifar10, SourceFormat::cifar100}) {
    if (wanted != SourceFormat::automatic && wanted != format) continue;
    std::vector<base::Path> files = training_files(folder, format);
    if (files.empty()) continue;
    if (!found.second.empty()) {
      throw base::DatasetError("{}: has training files of both {} and {}; say which with --format", folder.string(),
                               base::name_of(found.first), base::name_of(format));
    }
    found = {format, std::move(files)};
  }
  if (!found.second.empty()) return found;
  if (wanted == SourceFormat::automatic) {
    throw base::DatasetError(
        "{}: no file ends in .png, .jpg or .jpeg ({}), and none is named as the training files of MNIST or CIFAR are; "
        "files can be named one by one",
        folder.string(), found_instead(other_files));
  }
  throw base::DatasetError("{}: no file is named as the training files of {} are; files can be named one by one",
                           folder.string(), base::name_of(wanted));
}

SourceFormat format_of(const base::Path& path) {
  PackedFile file(path);
  if (looks_like_idx(file)) return SourceFormat::idx;
  return cifar_kind(file) == Cifar::ten ? SourceFormat::cifar10 : SourceFormat::cifar100;
}

RecordSet look_at_files(const SourceOptions& options, SourceFormat format, const std::vector<base::Path>& paths) {
  const bool with_labels = options.labels == Labels::kept;
  RecordSet set;
  if (format == SourceFormat::idx) {
    set.format = "IDX";
    for (const base::Path& path : paths) {
      const auto labels = with_labels ? std::optional(idx_labels_of(path)) : std::nullopt;
      set.files.push_back(look_at_idx(path, labels, options.limits.decode));
    }
    return set;
  }
  const Cifar kind = format == SourceFormat::cifar10 ? Cifar::ten : Cifar::hundred;
  set.format = name_of(kind);
  for (const base::Path& path : paths) set.files.push_back(look_at_cifar(path, kind, with_labels));
  if (with_labels) set.class_names = cifar_class_names(base::parent_of(paths.front()), kind);
  check_class_names(set.class_names, "a line of its names");
  return set;
}

std::string find_records(const SourceOptions& options, SourceFormat format, const std::vector<base::Path>& paths) {
  if (options.labels == Labels::folder) {
    throw base::ConfigError("--labels folder: {} is not a folder of pictures; wanted auto or none",
                            paths.front().string());
  }
  RecordSet set = look_at_files(options, format == SourceFormat::automatic ? format_of(paths.front()) : format, paths);
  int64_t count = 0;
  for (const RecordFile& file : set.files) count += file.count;
  if (count == 0) throw base::DatasetError("{}: has no images", paths.front().string());
  return std::string(kRecordsTag) + pack(set);
}

}  // namespace

std::string find_source(const SourceOptions& options) {
  if (options.paths.empty()) throw base::ConfigError("SOURCE: wanted a folder, or files");
  const base::Path& first = options.paths.front();
  for (const base::Path& path : options.paths) {
    if (options.paths.size() > 1 && (is_folder(path) || options.format == SourceFormat::folder)) {
      throw base::ConfigError("SOURCE: {} of {} is a folder, wanted one folder or files only", path.string(),
                              options.paths.size());
    }
  }
  if (!is_there(first)) {
    throw base::DatasetError("{}: not there, wanted a folder of PNG or JPEG files, or IDX or CIFAR files",
                             first.string());
  }
  if (options.format != SourceFormat::folder && !is_folder(first)) {
    return find_records(options, options.format, options.paths);
  }
  EndingCounts other_files;
  if (options.format == SourceFormat::folder || options.format == SourceFormat::automatic) {
    const FolderListing listing = list_folder(first);
    if (options.labels == Labels::folder) check_class_names(listing.class_names, "a folder's name");
    if (!listing.images.empty()) return std::string(kFolderTag) + pack(listing);
    other_files = listing.other_files;
    if (options.format == SourceFormat::folder) {
      throw base::DatasetError("{}: no file ends in .png, .jpg or .jpeg ({})", first.string(),
                               found_instead(other_files));
    }
  }
  const auto [format, files] = files_of_folder(first, options.format, other_files);
  return find_records(options, format, files);
}

std::unique_ptr<ImageSource> open_source(const base::FileSystem& files, const SourceOptions& options,
                                         const std::string& found) {
  if (found.starts_with(kRecordsTag)) return read_records(unpack_records(found.substr(kRecordsTag.size())));
  FolderListing listing = unpack_listing(found.substr(kFolderTag.size()));
  return read_folder(files, options.paths.front(), std::move(listing), options.labels == Labels::folder,
                     options.limits);
}

}  // namespace ddpm::data::prepare
