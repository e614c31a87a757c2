// The null class: the label that stands for "no class". It is the last row of a model's class table. Training gives it
// to images whose label diffusion.class_dropout drops, and guidance asks with it for what the model draws of any class.
//
// diffusers has no word for it, so nothing in a model folder says whether there is one: a table with one row more than
// the set has classes is a convention of whoever trained the model.
#pragma once

#include <cstdint>
#include <string>

#include "data/dataset.h"
#include "nn/config.h"

namespace ddpm::denoise {

/// Whether the model has a class table.
bool has_class_table(const nn::UNet2DConfig& model);

/// Its last row. The model has a class table.
int64_t null_class(const nn::UNet2DConfig& model);

/// Refuses a set one of whose classes, with images or only with a name, is the null class. Throws DatasetError.
void expect_room_for_null_class(const nn::UNet2DConfig& model, const data::Dataset& dataset);

/// Refuses, with DatasetError, a set one of whose labels is the null class, from which `option` shall guide away.
void expect_no_null_class(const nn::UNet2DConfig& model, const data::Dataset& dataset, const std::string& option);

}  // namespace ddpm::denoise
