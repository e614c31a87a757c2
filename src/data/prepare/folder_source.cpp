#include <new>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/input_file.h"
#include "data/prepare/folder.h"

namespace ddpm::data::prepare {
namespace {

/// A picture that may be whole is not left out.
[[noreturn]] void refuse(std::string_view what) {
  throw base::DatasetError(
      "{}; a picture is left out only for what it holds, so the set is not made: once "
      "this can be read, the same command continues with the shards that are missing",
      what);
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
    const std::string images = base::counted(size(), "image");
    if (listing_.other_files.empty()) return images;
    return fmt::format("{}; {} passed over: {}", images, base::counted(total(listing_.other_files), "other file"),
                       to_text(listing_.other_files));
  }
  [[nodiscard]] std::vector<Skipped> left_out() const override { return listing_.skipped; }
  [[nodiscard]] EndingCounts other_files() const override { return listing_.other_files; }

  void identify(const layout::Range& candidates, base::Sha256& digest) const override {
    digest.update(fmt::format("{} {} {} {}\n", limits_.decode.max_side, limits_.decode.max_pixels,
                              limits_.decode.max_jpeg_scans, limits_.max_file_bytes));
    for (int64_t i = candidates.begin; i < candidates.end; ++i) {
      const std::string& path = name_of(i);
      const base::FileFacts facts = looked_at(root_ / path);
      digest.update(path);
      digest.update(std::string_view("\0", 1));
      digest.update(fmt::format("{} {} {} {}\n", facts.stamp.size, facts.stamp.seconds, facts.stamp.nanoseconds,
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
    } catch (const base::TooLargeError&) {
      skipped.push_back({name, fmt::format("more than {} bytes", limits_.max_file_bytes)});
    } catch (const base::OutputError& error) {  // of the reading
      refuse(error.what());
    } catch (const std::bad_alloc&) {
      refuse(path.string() + ": there is not enough memory to read and decode it");
    } catch (const base::DatasetError& error) {  // of the decoder
      skipped.push_back({name, error.what()});
    }
    return std::nullopt;
  }

 private:
  static base::FileFacts looked_at(const base::Path& path) {
    try {
      const base::FileFacts facts = base::look_at(path);
      if (facts.kind != base::FileKind::absent) return facts;
    } catch (const base::OutputError& error) {
      refuse(error.what());
    }
    refuse(path.string() + ": is gone since its folder was listed");
  }
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
