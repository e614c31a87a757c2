// Values of keys as JSON: how files that diffusers writes hold them.
#pragma once

#include "base/json.h"
#include "config/schema.h"

namespace ddpm::config {

/// Integers beyond int64 become floats. An object becomes an empty table, which no key takes.
Value from_json(const base::Json& json);

/// The value for the target of `entry`, as Python takes it: null is false where true or false is wanted.
Value from_json(const base::Json& json, const Entry& entry);

/// An unset value is null.
base::OrderedJson to_json(const Value& value);

}  // namespace ddpm::config
