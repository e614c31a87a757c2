#include "data/prepare/pictures.h"

#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"

namespace ddpm::data::prepare {

std::optional<base::DType> told_type(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  try {
    if (sniff(bytes) != FileType::unknown) return stored_type(bytes);
  } catch (const base::DatasetError&) {
    return std::nullopt;  // a damaged header
  }
  return std::nullopt;
}

PictureSource::PictureSource(PictureSet set, const PictureLimits& limits) : set_(std::move(set)), limits_(limits) {}

std::vector<std::string> PictureSource::class_names() const {
  return set_.has_labels ? set_.class_names : std::vector<std::string>{};
}

std::string PictureSource::description() const {
  std::string images = base::counted(size(), "image");
  if (set_.other_files.empty()) return images;
  return fmt::format("{}; {} passed over: {}", images, base::counted(total(set_.other_files), "other file"),
                     to_text(set_.other_files));
}

void PictureSource::refuse(std::string_view what) {
  throw base::DatasetError(
      "{}; a picture is left out only for what it holds, so the set is not made: once "
      "this can be read, the same command continues with the shards that are missing",
      what);
}

void PictureSource::identify_limits(base::Sha256& digest) const {
  digest.update(fmt::format("{} {} {} {}\n", limits_.decode.max_side, limits_.decode.max_pixels,
                            limits_.decode.max_jpeg_scans, limits_.max_file_bytes));
}

void PictureSource::leave_out_large(const std::string& name, std::vector<Skipped>& skipped) const {
  skipped.push_back({name, fmt::format("more than {} bytes", limits_.max_file_bytes)});
}

std::optional<Picture> PictureSource::decode(std::string_view bytes, int channels, const std::string& name,
                                             const std::string& path, std::vector<Skipped>& skipped) const {
  try {
    return decode_picture(std::as_bytes(std::span(bytes)), set_.dtype, channels, limits_.decode);
  } catch (const std::bad_alloc&) {
    refuse(path + ": there is not enough memory to read and decode it");
  } catch (const base::DatasetError& error) {
    skipped.push_back({name, error.what()});
  }
  return std::nullopt;
}

}  // namespace ddpm::data::prepare
