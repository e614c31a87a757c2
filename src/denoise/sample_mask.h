// Where samples have no values: whose mask counts for what is drawn.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "data/dataset.h"
#include "denoise/image_record.h"

namespace ddpm::denoise {

/// Whose mask it is.
enum class MaskSource : uint8_t {
  nobody,  ///< the model learned from images without a mask, and draws values everywhere
  model,   ///< all images of its training set had the one that its record holds, which is of the size that is drawn
  given,   ///< the set that samples are drawn given has it, if anything has
};

/// The one rule. A mask that all images shared belongs to the model, where its bits are recorded and images of its size
/// are drawn. If an older version did not record them, or another size is drawn, and if each image had a mask of its
/// own, the set that is given says it. No set gives one to a model that learned from images without.
MaskSource mask_source(const ImageRecord& image);

/// The model's own mask, bool [1, 1, height, width] (of volumes layer below layer); undefined where another one counts.
at::Tensor mask_of_model(const ImageRecord& image, at::Device device);

/// Whether a set that is given, which may be null, has the masks of samples.
bool gives_masks(const ImageRecord& image, const data::Dataset* given);

/// The name of the training set's mask where a bare file may give one; "": none is read.
std::string mask_to_read(const ImageRecord& image);

/// What is to be said of masks that a set has and that do not count, or that are wanted and nobody gives; "": nothing.
std::string mask_warning(const ImageRecord& image, const data::Dataset* given);

}  // namespace ddpm::denoise
