// A set of samples, or the data that they are held against: a dataset folder, one .h5 file, an .npy array, or a folder
// of pictures, as `ddpm sample` writes them.
//
// Values are given planar, [n, channels, pixels...] in float32, whatever way they are stored, and on either of two
// scales: that of the stored values, such as kelvins, or that of the model. What the set does not say of its scale, the
// caller does (as_stored_in()): the transforms of the data that the model was trained on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "comm/communicator.h"
#include "data/dataset.h"
#include "data/field.h"
#include "eval/ensembles.h"

namespace ddpm::eval {

/// A scale of values.
enum class Scale : uint8_t {
  stored,  ///< physical units, as a dataset holds them
  model,   ///< what the model sees, after the variables' transforms
};
constexpr auto names_of(Scale /*type*/) { return std::to_array<std::string_view>({"stored", "model"}); }

/// On which scale the files of samples hold them.
enum class Units : uint8_t {
  automatic,  ///< stored units where the set records transforms of its variables, the model's range otherwise
  stored,     ///< as `ddpm sample --denormalize` writes them
  model,
};
constexpr auto names_of(Units /*type*/) { return std::to_array<std::string_view>({"auto", "stored", "model"}); }

class SampleSet {
 public:
  /// Collective. Opens a dataset by data::Dataset::open, or reads the header of an .npy of float32 [n, C, H, W] or
  /// [n, C, D, H, W], or lists a folder of pictures (picture_folder.h). What cannot be opened throws DatasetError's
  /// code on all ranks.
  static SampleSet open(comm::Communicator& comm, const base::Path& path, const data::DatasetOptions& options = {});
  ~SampleSet();
  SampleSet(SampleSet&&) noexcept;
  SampleSet& operator=(SampleSet&&) noexcept;

  [[nodiscard]] const base::Path& path() const;
  [[nodiscard]] int64_t size() const;
  [[nodiscard]] int64_t channels() const;
  /// Height and width, of volumes with the depth before.
  [[nodiscard]] const std::vector<int64_t>& sides() const;
  [[nodiscard]] int64_t pixels() const;
  /// Names, units and transforms of the channels; of an .npy "channel 0" and so on. Pictures have 3 channels until
  /// as_stored_in() says otherwise.
  [[nodiscard]] const std::vector<data::Variable>& variables() const;
  /// The dataset, for what a SampleSet does not say, such as labels; null of an .npy and of pictures.
  [[nodiscard]] const data::Dataset* dataset() const;
  /// Whether values are stored in 8 bits.
  [[nodiscard]] bool holds_bytes() const;
  /// Whether a dataset says what its values go through before a model sees them: they are stored ones then, as
  /// `ddpm sample --denormalize` writes them. Before as_stored_in().
  [[nodiscard]] bool records_transforms() const;

  /// Throws DatasetError unless the samples have the channels and sides of `data`, and where a dataset names them in
  /// another order. Takes over names and transforms of the data: of the values on the scale that `units` says. Samples
  /// of 8 bits keep their own transform: they are stored values, and the model's range is x / 127.5 - 1 of them,
  /// whatever the data is.
  void as_stored_in(const std::vector<data::Variable>& variables, const std::vector<int64_t>& sides, Units units,
                    const std::string& data);
  /// The scale of the values in the files.
  [[nodiscard]] Scale scale() const;

  /// Samples [first, first + n) as float32 [n, channels, pixels...]; `out` has exactly as many. From the thread that
  /// owns the set, on any rank alone. A sample with a value that is not finite where it is valid, in the files or on
  /// the scale that is asked for, throws DatasetError, which names sample, channel and place.
  void read(int64_t first, int64_t n, Scale scale, std::span<float> out) const;
  /// Which pixels of these samples are valid, [n, pixels...], 1 or 0; all of a set without a mask.
  void read_valid(int64_t first, int64_t n, std::span<uint8_t> out) const;
  [[nodiscard]] bool has_mask() const;
  /// Whether all samples have the same mask.
  [[nodiscard]] bool has_shared_mask() const;

  /// Collective. The conditions of the samples by /condition_index and /member of the files, as
  /// `ddpm sample --condition` writes them, or, where `members` is given, sample c·members + m as member m of condition
  /// c. Throws DatasetError's code on all ranks where groups are not whole.
  [[nodiscard]] Ensembles ensembles(comm::Communicator& comm, std::optional<int64_t> members) const;

  /// Collective. The condition of each sample, where the files record it, in whatever order; empty otherwise. Throws
  /// DatasetError's code on all ranks.
  [[nodiscard]] std::vector<int64_t> conditions(comm::Communicator& comm) const;

  /// Collective: closes the files. Without it that is left to MPI_Finalize.
  void close(comm::Communicator& comm);

 private:
  struct State;
  explicit SampleSet(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A sentence on the scale of samples that do not tell theirs, where the transforms of the data that they are held
/// against change values and nobody says what the samples hold; empty otherwise. Before as_stored_in().
std::string scale_note(const SampleSet& samples, const SampleSet& data, Units units);

}  // namespace ddpm::eval
