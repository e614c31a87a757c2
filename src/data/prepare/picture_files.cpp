#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/input_file.h"
#include "data/prepare/pictures.h"

namespace ddpm::data::prepare {
namespace {

class FileSource final : public PictureSource {
 public:
  FileSource(const base::FileSystem& files, PictureFiles pictures, const PictureLimits& limits)
      : PictureSource(std::move(pictures.set), limits),
        files_(files),
        root_(std::move(pictures.root)),
        names_(std::move(pictures.names)),
        labels_(std::move(pictures.labels)),
        no_label_(std::move(pictures.no_label)) {
    DDPM_CHECK(!has_labels() || labels_.size() == names_.size(), "{} labels of {} pictures", labels_.size(),
               names_.size());
  }

  [[nodiscard]] int64_t size() const override { return std::ssize(names_); }
  [[nodiscard]] std::string name_of(int64_t index) const override { return names_[static_cast<std::size_t>(index)]; }

  [[nodiscard]] std::vector<base::FileStamp> look_at(const layout::Range& candidates) const override {
    std::vector<base::FileStamp> stamps;
    stamps.reserve(static_cast<std::size_t>(candidates.size()));
    for (int64_t i = candidates.begin; i < candidates.end; ++i) stamps.push_back(looked_at(root_ / name_of(i)).stamp);
    return stamps;
  }

  void identify(std::span<const int64_t> candidates, std::span<const base::FileStamp> stamps,
                base::Sha256& digest) const override {
    identify_limits(digest);
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      digest.update(name_of(candidates[k]));
      digest.update(std::string_view("\0", 1));
      digest.update(fmt::format("{} {} {} {}\n", stamps[k].size, stamps[k].seconds, stamps[k].nanoseconds,
                                label_of(candidates[k])));
    }
  }

  std::optional<Sample> read(int64_t index, int channels, std::vector<Skipped>& skipped) override {
    const std::string name = name_of(index);
    const int64_t label = label_of(index);
    if (label < 0) {
      skipped.push_back({name, no_label_});
      return std::nullopt;
    }
    const base::Path path = root_ / name;
    try {
      const std::string bytes = files_.read(path, limits().max_file_bytes);
      auto picture = decode(bytes, channels, name, path.string(), skipped);
      if (picture) return Sample{*std::move(picture), label};
    } catch (const base::TooLargeError&) {
      leave_out_large(name, skipped);
    } catch (const base::OutputError& error) {
      refuse(error.what());
    } catch (const std::bad_alloc&) {
      refuse(path.string() + ": there is not enough memory to read and decode it");
    }
    return std::nullopt;
  }

 private:
  static base::FileFacts looked_at(const base::Path& path) {
    try {
      const base::FileFacts facts = base::look_at(path);
      if (facts.kind == base::FileKind::regular) return facts;
      if (facts.kind != base::FileKind::absent) refuse(path.string() + ": not a regular file");
    } catch (const base::OutputError& error) {
      refuse(error.what());
    }
    refuse(path.string() + ": is gone since the source was listed, or was never there");
  }
  [[nodiscard]] int64_t label_of(int64_t index) const {
    return has_labels() ? labels_[static_cast<std::size_t>(index)] : 0;
  }

  const base::FileSystem& files_;
  base::Path root_;
  std::vector<std::string> names_;
  std::vector<int64_t> labels_;
  std::string no_label_;
};

}  // namespace

std::unique_ptr<ImageSource> read_pictures(const base::FileSystem& files, PictureFiles pictures,
                                           const PictureLimits& limits) {
  return std::make_unique<FileSource>(files, std::move(pictures), limits);
}

}  // namespace ddpm::data::prepare
