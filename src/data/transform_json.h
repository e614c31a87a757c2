// A variable's transform as JSON, in the list of fields.
#pragma once

#include <string>

#include "base/json.h"
#include "data/transform.h"

namespace ddpm::data {

/// {"type": "standardize", "mean": 281.0, "std": 21.3} and the like. The arrays of a grid are the base64 of float32
/// numbers, little-endian: {"type": "grid", "sides": [64, 64], "mean": "AACMQ…", "std": "…"}.
base::OrderedJson to_json(const Transform& transform);

/// A grid for people: "mean" and "std" each are {"float32_values": 4096, "sha256": "…"}, of what base64 would hold.
base::OrderedJson short_json(const Transform& grid);

/// The strict reverse of to_json(). Throws OutputError (base/json_fields.h) or DatasetError, which `where` begins, for
/// what is not such an object. Whether the numbers make a map, Transform::problem() says.
Transform parse_transform(const base::Json& json, const std::string& where);

}  // namespace ddpm::data
