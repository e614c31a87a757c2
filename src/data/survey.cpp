#include "data/survey.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "comm/collectives.h"
#include "layout/range.h"

namespace ddpm::data {
namespace {

/// The images are cut into this many pieces at most, whatever the number of ranks: a piece's sums are added up by one
/// rank, and the pieces' sums in the order of the pieces.
constexpr int64_t kMostPieces = 1024;
/// Sums of all pieces together, which travel as text.
constexpr int64_t kMostSums = int64_t{1} << 16;
constexpr int64_t kReadBytes = int64_t{4} << 20;

/// One rank's share of a survey.
class Surveyor {
 public:
  Surveyor(const Dataset& dataset, const SurveyOptions& options, const std::function<void(int64_t, int64_t)>& progress)
      : dataset_(dataset),
        field_(dataset.info().find(options.role)),
        format_(dataset.fields().at(field_).format()),
        mask_(options.role == FieldRole::image ? dataset.info().find(FieldRole::mask) : dataset.info().fields.size()),
        with_statistics_(options.statistics),
        progress_(progress) {
    const int64_t all = dataset.size();
    images_ = options.most_images > 0 ? std::min(options.most_images, all) : all;
    pieces_ = std::min({images_, kMostPieces, std::max<int64_t>(1, kMostSums / format_.channels)});
    block_ = std::max<int64_t>(1, kReadBytes / static_cast<int64_t>(format_.bytes()));
  }

  [[nodiscard]] const ImageFormat& format() const { return format_; }
  [[nodiscard]] int64_t images() const { return images_; }
  [[nodiscard]] int64_t pieces() const { return pieces_; }

  /// What this rank found in its pieces, as text.
  std::string look(layout::Range pieces) {
    const int64_t total = pieces.empty() ? 0 : piece(pieces.end - 1).end - piece(pieces.begin).begin;
    int64_t done = 0;
    base::OrderedJson sums = base::OrderedJson::array();
    for (int64_t p = pieces.begin; p < pieces.end; ++p) {
      Statistics statistics(format_);
      for (int64_t first = piece(p).begin; first < piece(p).end; first += block_) {
        const int64_t count = std::min(block_, piece(p).end - first);
        look_at_block(first, count, statistics);
        done += count;
        if (progress_) progress_(done, total);
      }
      if (with_statistics_) sums.push_back(statistics.to_json());
    }
    const base::OrderedJson found = {{"sums", std::move(sums)}, {"unusable", unusable_}, {"faults", faults_}};
    return found.dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace);
  }

 private:
  [[nodiscard]] layout::Range piece(int64_t p) const { return layout::even_part(images_, pieces_, p); }
  [[nodiscard]] bool whole() const { return images_ == dataset_.size(); }
  /// The image of the set that the survey's image `i` is. It does not overflow: a sample is small.
  [[nodiscard]] int64_t image(int64_t i) const { return whole() ? i : i * dataset_.size() / images_; }

  /// One read where that succeeds, otherwise one for each image, so that the others still count.
  void look_at_block(int64_t first, int64_t count, Statistics& statistics) {
    if (whole() && read(first, count)) {
      add(count, statistics);
    } else {
      for (int64_t i = first; i < first + count; ++i) {
        if (read(image(i), 1, /*note=*/true)) add(1, statistics);
      }
    }
    dataset_.expect_unchanged();
  }

  bool read(int64_t first, int64_t count, bool note = false) {
    buffer_.resize(static_cast<std::size_t>(count) * format_.bytes());
    try {
      dataset_.read_unconfirmed(field_, first, count, buffer_);
      read_masks(first, count);
      return true;
    } catch (const ImageError& error) {
      if (!note) return false;
      ++unusable_;
      if (faults_.size() < Survey::kMostNamed) faults_.emplace_back(error.what());
      return false;
    }
  }

  void read_masks(int64_t first, int64_t count) {
    const bool each_has_one = mask_ < dataset_.fields().size();
    if (!with_statistics_ || !each_has_one) return;
    masks_.resize(static_cast<std::size_t>(count * format_.pixels()));
    dataset_.read_unconfirmed(mask_, first, count, masks_);
  }

  [[nodiscard]] std::span<const std::byte> mask(std::size_t image) const {
    const auto pixels = static_cast<std::size_t>(format_.pixels());
    if (mask_ == dataset_.info().fields.size()) return {};
    if (mask_ >= dataset_.fields().size()) return dataset_.set_values(mask_ - dataset_.fields().size());
    return std::span(masks_).subspan(image * pixels, pixels);
  }

  void add(int64_t count, Statistics& statistics) const {
    const std::size_t bytes = format_.bytes();
    for (std::size_t i = 0; with_statistics_ && i < static_cast<std::size_t>(count); ++i) {
      statistics.add(std::span(buffer_).subspan(i * bytes, bytes), mask(i));
    }
  }

  const Dataset& dataset_;
  std::size_t field_;
  ImageFormat format_;
  std::size_t mask_;  // a place in info().fields
  bool with_statistics_;
  const std::function<void(int64_t, int64_t)>& progress_;
  int64_t images_ = 0;
  int64_t pieces_ = 0;
  int64_t block_ = 1;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> masks_;
  int64_t unusable_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace

int64_t sample_size(const Dataset& dataset, int64_t most_images, int64_t most_bytes) {
  constexpr int64_t kLeastImages = 16;
  const int64_t fitting = most_bytes / static_cast<int64_t>(dataset.bytes_per_read());
  return std::min(std::clamp(fitting, kLeastImages, std::max(kLeastImages, most_images)), dataset.size());
}

Survey survey(comm::Communicator& comm, const Dataset& dataset, const SurveyOptions& options,
              const std::function<void(int64_t, int64_t)>& progress) {
  Surveyor surveyor(dataset, options, progress);
  std::string mine;
  comm::agree(comm, [&] { mine = surveyor.look(layout::even_part(surveyor.pieces(), comm.size(), comm.rank())); });
  Survey result{.images = surveyor.images(), .statistics = {}, .unusable = 0, .faults = {}};
  Statistics all(surveyor.format());
  for (const std::string& part : comm::all_gather(comm, mine)) {  // in the order of ranks: that of the images
    const base::Json found = base::Json::parse(part);
    for (const base::Json& sums : found["sums"]) all.merge(Statistics::from_json(surveyor.format(), sums));
    result.unusable += found["unusable"].get<int64_t>();
    for (const base::Json& fault : found["faults"]) {
      if (result.faults.size() < Survey::kMostNamed) result.faults.push_back(fault.get<std::string>());
    }
  }
  if (options.statistics && !all.empty()) result.statistics = all.result();
  return result;
}

}  // namespace ddpm::data
