// The list of fields as JSON, in dataset.json and in what `ddpm data inspect` prints.
#pragma once

#include <vector>

#include "base/json.h"
#include "base/json_fields.h"
#include "data/field.h"

namespace ddpm::data {

base::OrderedJson to_json(const std::vector<Field>& fields);

/// The strict reverse, where `where` names the list in messages. Throws DatasetError, also for a role that this program
/// does not know, for two fields of one role, and for fields that do not fit the images.
std::vector<Field> parse_field_list(const base::Json& list, const std::string& where);

/// The names and units alone of variables, and the strict reverse, which gives no transforms.
base::OrderedJson names_json(const std::vector<Variable>& variables);
std::vector<Variable> parse_names(const base::Json& list, const std::string& where);

/// What was said before there was a list, and still is, for those who look for these keys alone: "height", "width",
/// "channels", "dtype" and "normalization" of the images. What `root` throws is its OutputError.
void put_image(base::OrderedJson& json, const ImageFormat& format, const Normalization& normalization);
ImageFormat parse_image(const base::JsonFields& root);
Normalization parse_normalization(const base::JsonFields& root, base::DType dtype);

}  // namespace ddpm::data
