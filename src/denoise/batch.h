// From stored images to what the model sees, on the device that computes. Nothing waits for the device, but for the
// copy in stored_batch().
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/dataset.h"
#include "data/field.h"
#include "data/loader.h"
#include "layout/range.h"
#include "nn/unit.h"

namespace ddpm::denoise {

/// A micro-batch as it is stored.
struct StoredBatch {
  int64_t step = 0;                ///< steps done before this one
  layout::Range positions;         ///< places in the global batch; n = positions.size()
  at::Tensor step_on_device;       ///< `step` as int64, one number
  std::vector<at::Tensor> values;  ///< one per field of the dataset, in order: [n, shape...] in the stored type
  bool windows = false;            ///< what is read in blocks are windows, not whole images
};

/// A micro-batch as the model takes it: each field where its role belongs.
struct ModelBatch {
  int64_t step = 0;
  layout::Range positions;
  at::Tensor step_on_device;
  at::Tensor x0 = {};              ///< float32 [n, C, H, W], channels-last in memory, about [-1, 1]
  nn::Conditions conditions = {};  ///< labels, and parameters as the model takes them
  at::Tensor beside = {};          ///< float32 [n, C', H, W]: input channels beside those of x0; undefined: none
  at::Tensor valid = {};           ///< bool [n, 1, H, W]: pixels that the loss sees; undefined: all
};

/// The shape of a field's tensor for n images: [n, shape...].
std::vector<int64_t> batch_shape(const data::Field& field, int64_t n);

/// Images `range` of the set, one after another. Of the fields that are read in blocks those are read that `wanted`
/// accepts; nothing may be used of the others. May be called on one rank alone. Throws DatasetError.
data::MicroBatch read_range(const data::Dataset& dataset, layout::Range range,
                            const std::function<bool(const data::Field&)>& wanted);

/// Windows of these images, at positions that are their numbers, of step 0.
data::MicroBatch read_windows(const data::Dataset& dataset, layout::Range range, const data::ImageWindows& windows);

/// The batch on `device`, of `fields` as they were read: its own memory on the host, else a copy that is waited for.
StoredBatch stored_batch(data::MicroBatch batch, std::span<const data::Field> fields, at::Device device);

/// Stored images [n, h, w, c] as the model takes them, float32 [n, c, h, w] and channels-last in memory, in one pass
/// (the operator ddpm::model_images, with the same bits on CPU and GPU). uint8 is x / 127.5 - 1, float32 x · scale +
/// offset. With `flip`, mirrors left and right those images whose coin, a pure function of (seed, step, first position
/// + place), says so.
at::Tensor model_images(const at::Tensor& stored, const at::Tensor& step, int64_t seed, int64_t first, bool flip,
                        const data::Normalization& map);

}  // namespace ddpm::denoise
