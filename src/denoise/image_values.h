// What a set's images hold, as training tells it before the first step: their scale, and whether samples are cut.
//
// 8-bit images always lie in [-1, 1]. The values of a float32 set may be anything, in units of its maker, while the
// noise that diffusion adds has mean 0 and deviation 1, and clipping leaves nothing outside ±clip_sample_range.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "comm/communicator.h"
#include "data/dataset.h"
#include "diffusion/config.h"
#include "run/runtime.h"

namespace ddpm::denoise {

/// Means farther from zero than this, and deviations outside these bounds, are warned of.
inline constexpr double kFarMean = 3.0;
inline constexpr double kLeastDeviation = 0.1;
inline constexpr double kGreatestDeviation = 10.0;

struct ImageValues {
  std::vector<data::ChannelStatistics> channels;
  std::vector<std::string> names = {};  ///< what the channels are called: the variables of the set
  std::string origin;                   ///< kAllImages, or "256 sampled images"
};
inline constexpr const char* kAllImages = "all images";

/// The values as they are stored: from dataset.json, or from a sample of a bare .h5 file's images that is bounded in
/// number and bytes. There are no channels where no mask says of any pixel that it is valid. Collective. An image that
/// cannot be used throws DatasetError's code on all ranks.
ImageValues stored_values(const data::Dataset& dataset, comm::Communicator& world);

/// The values as the model sees them, after normalization. Returns nothing for an 8-bit set, without channels, and
/// where a transform is not affine.
std::optional<ImageValues> model_values(const data::Dataset& dataset, const ImageValues& stored);

/// model_values() of the stored_values() of a set. Collective; throws as stored_values() does.
std::optional<ImageValues> image_values(const data::Dataset& dataset, comm::Communicator& world);

/// A sentence with the numbers for each thing that is likely a mistake: values far from unit scale, and clipping that
/// cuts values of the set. `path` names the set.
std::vector<std::string> value_warnings(const ImageValues& values, const diffusion::SchedulerConfig& scheduler,
                                        const std::string& path);

/// The deviation of all values together may differ from edm's sigma_data by this factor without a warning.
inline constexpr double kMostOffSigmaData = 1.5;
/// A sentence where `scheduler` is edm's and its sigma_data is not the deviation of all values, by more than that
/// factor; "" otherwise. For models of whole images: of what a regression leaves, the deviation is not known.
std::string sigma_data_warning(const ImageValues& values, const diffusion::SchedulerConfig& scheduler,
                               const std::string& path);

/// Logs the value_warnings(); none without values.
void warn_of_values(const std::optional<ImageValues>& values, const diffusion::SchedulerConfig& scheduler,
                    const data::Dataset& dataset, const base::Logger& log);

/// The value of diffusion.clip_sample where `scheduler` does not set it: true for 8-bit images. For a float32 set it is
/// the value that the run in the folder `run` has (which decided when clipping was always on), or false, and a line
/// says so. Collective.
bool settled_clip_sample(const diffusion::SchedulerConfig& scheduler, const data::Dataset& dataset,
                         const base::Path& run, const run::Runtime& runtime);

}  // namespace ddpm::denoise
