// Which candidates of a source go into which set, and how a set is cut into shards. Pure arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/input_file.h"
#include "data/prepare/image_source.h"

namespace ddpm::data::prepare {

/// The images of one set that is made.
struct SplitPart {
  std::string folder;               ///< folder in the output that it goes into; "": the output itself
  std::vector<int64_t> candidates;  ///< in order
  int64_t shards = 0;

  /// The shard's file, relative to the output.
  [[nodiscard]] std::string shard_name(int64_t index) const;
};

/// The folder of the output that the validation set has.
inline constexpr std::string_view kValidationFolder = "validation";

/// Whether the image of this name belongs to the validation set of so many percent: the first 64 bits of the name's
/// SHA-256, as a fraction of 2^64, are less. A name stays where it is, whatever other names there are.
bool is_for_validation(std::string_view name, double percent);

/// One part, or with percent > 0 two, each of at most so many shards, of which none is empty: of validation's, as many
/// as its share calls for. Throws ConfigError when images of the source have no names, DatasetError when no image falls
/// into one of the parts.
std::vector<SplitPart> split(const ImageSource& source, int64_t shards, double percent);

/// What making a candidate costs, in bytes of its file: those that are read, and the work on any file.
int64_t cost_of(const base::FileStamp& stamp);

/// Borders of the shards among candidates of these costs: shard i holds [borders[i], borders[i + 1]), which is never
/// empty, and nearly an equal share of all costs. There are at least as many candidates as shards.
std::vector<int64_t> cut_by_cost(std::span<const int64_t> costs, int64_t shards);

}  // namespace ddpm::data::prepare
