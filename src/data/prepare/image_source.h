// Where the images of a new dataset come from: one interface for pictures and files of records.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/input_file.h"
#include "base/sha256.h"
#include "data/prepare/endings.h"
#include "data/prepare/image.h"
#include "layout/range.h"

namespace ddpm::data::prepare {

/// What was left out, and why.
struct Skipped {
  std::string path;  ///< relative to the source, with '/'
  std::string reason;
};

struct Sample {
  Picture image;
  int64_t label = 0;  ///< class id; without meaning where the source has no labels
};

/// The candidates 0, 1, ... size() - 1 of a dataset, the same on every rank. A candidate that cannot be decoded is left
/// out. One that cannot be read now may be whole: that throws DatasetError, as does a source that breaks as a whole.
class ImageSource {
 public:
  virtual ~ImageSource() = default;

  [[nodiscard]] virtual int64_t size() const = 0;
  /// u8 or f32: what the images are stored as.
  [[nodiscard]] virtual base::DType dtype() const = 0;
  [[nodiscard]] virtual bool has_labels() const = 0;
  /// Labels are below this number; 0 without labels.
  [[nodiscard]] virtual int64_t classes() const = 0;
  /// The names of labels 0, 1, ...; empty where they have none.
  [[nodiscard]] virtual std::vector<std::string> class_names() const = 0;
  /// What stands for it in messages: its path.
  [[nodiscard]] virtual std::string name() const = 0;
  /// What it holds, for people: "60000 images of 28 x 28 x 1".
  [[nodiscard]] virtual std::string description() const = 0;
  /// The name of a candidate, which stays the same when others are added; "" where images have none.
  [[nodiscard]] virtual std::string name_of(int64_t index) const = 0;
  /// What was left out when the source was looked through.
  [[nodiscard]] virtual std::vector<Skipped> left_out() const = 0;
  /// Files beside the candidates that are of no kind that is read.
  [[nodiscard]] virtual EndingCounts other_files() const = 0;

  /// Looks at what these candidates are read from: its bytes and its time.
  [[nodiscard]] virtual std::vector<base::FileStamp> look_at(const layout::Range& candidates) const = 0;
  /// Adds to `digest` all that these candidates depend on. `stamps` are those of look_at(), of each of them.
  virtual void identify(std::span<const int64_t> candidates, std::span<const base::FileStamp> stamps,
                        base::Sha256& digest) const = 0;
  /// Candidate `index`, upright and with 1 or 3 channels, or absent with the reason added to `skipped`. Going through
  /// the candidates in order is cheapest.
  virtual std::optional<Sample> read(int64_t index, int channels, std::vector<Skipped>& skipped) = 0;
};

}  // namespace ddpm::data::prepare
