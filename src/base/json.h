// JSON from untrusted files: size and depth limits, no duplicate keys, typed access that names the key.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace ddpm::base {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

struct JsonLimits {
  uint64_t max_bytes = 256U << 20U;
  int max_depth = 32;
  std::size_t max_values = std::size_t{1}
                           << 25U;  ///< values of any kind: each takes 16 bytes or more, "0," in a list only two
};

/// Parses `text`; throws std::invalid_argument with position and reason for bad syntax, duplicate keys, or more than
/// the limits. Callers turn it into their own typed error with the file's path.
Json parse_json(std::string_view text, const JsonLimits& limits = {});
/// Takes an object of a list; `read` is what has been read of the object around the list, without what was handed over.
using JsonItemSink = std::function<void(const Json& read, const Json& item)>;
/// What parse_json() does, of an object; but objects in lists under these keys go to the sinks as they are read, and
/// not into the result, so that a long list is never in memory as a whole. What a sink throws is passed on.
Json parse_json_lists(std::string_view text, const JsonLimits& limits,
                      const std::map<std::string, JsonItemSink, std::less<>>& sinks);
/// What parse_json() does, with the keys in their order, for small texts: the time grows with the square of an object's
/// keys.
OrderedJson parse_ordered_json(std::string_view text, const JsonLimits& limits);

/// Returns a value as JSON text for an error line, cut to a readable length.
std::string excerpt(const Json& json);

/// The value with each text of more than 512 bytes cut, such as the arrays of grids, for people to read.
Json with_short_texts(Json json);

}  // namespace ddpm::base
