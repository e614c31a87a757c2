#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/counted.h"
#include "base/error.h"
#include "data/prepare/folder.h"

namespace ddpm::data::prepare {
namespace {

/// The text of `error` without the path that it begins with: a list of skipped files names paths in its own way.
std::string reason_of(const base::Error& error, const base::Path& path) {
  std::string_view text = error.what();
  const std::string prefix = path.string() + ": ";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return std::string(text);
}

class FolderSource final : public ImageSource {
 public:
  FolderSource(const base::FileSystem& files, base::Path root, FolderListing listing, bool labels,
               const PictureLimits& limits)
      : files_(files), root_(std::move(root)), listing_(std::move(listing)), labels_(labels), limits_(limits) {}

  [[nodiscard]] int64_t size() const override { return std::ssize(listing_.images); }
  [[nodiscard]] bool has_labels() const override { return labels_; }
  [[nodiscard]] int64_t classes() const override { return std::ssize(class_names()); }
  [[nodiscard]] std::vector<std::string> class_names() const override {
    return labels_ ? listing_.class_names : std::vector<std::string>{};
  }
  [[nodiscard]] std::string name() const override { return root_.string(); }
  [[nodiscard]] std::string description() const override {
    return fmt::format("{}, {} passed over", base::counted(size(), "image"),
                       base::counted(listing_.other_files, "other file"));
  }
  [[nodiscard]] std::vector<Skipped> left_out() const override { return listing_.skipped; }

  void identify(const layout::Range& candidates, base::Sha256& digest) const override {
    digest.update(fmt::format("{} {} {} {}\n", limits_.decode.max_side, limits_.decode.max_pixels,
                              limits_.decode.max_jpeg_scans, limits_.max_file_bytes));
    for (int64_t i = candidates.begin; i < candidates.end; ++i) {
      const std::string& path = name_of(i);
      struct stat status = {};
      const bool there = ::stat((root_ / path).c_str(), &status) == 0;
      digest.update(path);
      digest.update(std::string_view("\0", 1));
      if (!there) continue;
      digest.update(fmt::format("{} {} {} {}\n", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                                listing_.class_of(path)));
    }
  }

  std::optional<Sample> read(int64_t index, int channels, std::vector<Skipped>& skipped) override {
    const std::string& name = name_of(index);
    const int64_t label = labels_ ? listing_.class_of(name) : 0;
    if (label < 0) {
      skipped.push_back({name, "not in a folder that could be its class"});
      return std::nullopt;
    }
    const base::Path path = root_ / name;
    try {
      const std::string bytes = files_.read(path, limits_.max_file_bytes);
      return Sample{decode_image(std::as_bytes(std::span(bytes)), channels, limits_.decode), label};
    } catch (const base::OutputError& error) {  // of the read
      skipped.push_back({name, reason_of(error, path)});
    } catch (const base::DatasetError& error) {  // of the decoder
      skipped.push_back({name, error.what()});
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] const std::string& name_of(int64_t index) const {
    return listing_.images[static_cast<std::size_t>(index)];
  }

  const base::FileSystem& files_;
  base::Path root_;
  FolderListing listing_;
  bool labels_;
  PictureLimits limits_;
};

}  // namespace

std::unique_ptr<ImageSource> read_folder(const base::FileSystem& files, base::Path root, FolderListing listing,
                                         bool labels, const PictureLimits& limits) {
  return std::make_unique<FolderSource>(files, std::move(root), std::move(listing), labels, limits);
}

}  // namespace ddpm::data::prepare
