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

/// One rank's share of a survey.
class Surveyor {
 public:
  Surveyor(const Dataset& dataset, const SurveyOptions& options, const base::ProgressReport& progress)
      : sweep_(dataset, dataset.info().find(options.role),
               {.most_images = options.most_images, .masks = options.statistics}),
        with_statistics_(options.statistics),
        prepare_(options.prepare),
        progress_(progress) {
    pieces_ = std::min({images(), kMostPieces, std::max<int64_t>(1, kMostSums / format().channels)});
  }

  [[nodiscard]] const ImageFormat& format() const { return sweep_.format(); }
  [[nodiscard]] int64_t images() const { return sweep_.images(); }
  [[nodiscard]] int64_t pieces() const { return pieces_; }

  /// What this rank found in its pieces, as text.
  std::string look(layout::Range pieces) {
    const int64_t total = pieces.empty() ? 0 : piece(pieces.end - 1).end - piece(pieces.begin).begin;
    int64_t done = 0;
    base::OrderedJson sums = base::OrderedJson::array();
    for (int64_t p = pieces.begin; p < pieces.end; ++p) {
      Statistics statistics(format());
      sweep_.visit(
          piece(p),
          [&](auto values, auto valid) {
            if (with_statistics_) statistics.add(prepared(values), valid);
          },
          [&](int64_t count) {
            done += count;
            if (progress_) progress_(done * images() / total, images());
          });
      if (with_statistics_) sums.push_back(statistics.to_json());
    }
    const base::OrderedJson found = {
        {"sums", std::move(sums)}, {"unusable", sweep_.unusable()}, {"faults", sweep_.faults()}};
    return found.dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace);
  }

 private:
  [[nodiscard]] layout::Range piece(int64_t p) const { return layout::even_part(images(), pieces_, p); }

  /// The values, changed as was asked for.
  std::span<const std::byte> prepared(std::span<const std::byte> values) {
    if (!prepare_) return values;
    prepared_.assign(values.begin(), values.end());
    prepare_(prepared_);
    return prepared_;
  }

  ImageSweep sweep_;
  bool with_statistics_;
  std::function<void(std::span<std::byte>)> prepare_;
  std::vector<std::byte> prepared_;
  const base::ProgressReport& progress_;
  int64_t pieces_ = 0;
};

}  // namespace

int64_t sample_size(const Dataset& dataset, int64_t most_images, int64_t most_bytes) {
  constexpr int64_t kLeastImages = 16;
  const int64_t fitting = most_bytes / static_cast<int64_t>(dataset.bytes_per_read());
  return std::min(std::clamp(fitting, kLeastImages, std::max(kLeastImages, most_images)), dataset.size());
}

Survey survey(comm::Communicator& comm, const Dataset& dataset, const SurveyOptions& options,
              const base::ProgressReport& progress) {
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
