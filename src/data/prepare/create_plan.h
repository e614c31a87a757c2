// What `ddpm data create` makes of a source: one set or two, cut into shards whose sources have nearly equal numbers of
// bytes, so that ranks which take shard after shard end together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "comm/communicator.h"
#include "data/growing_folder.h"
#include "data/prepare/create_options.h"
#include "data/prepare/image_source.h"
#include "data/prepare/make_shard.h"
#include "data/prepare/split.h"

namespace ddpm::data::prepare {

class CreatePlan {
 public:
  /// Splits the source. Every rank makes the same plan.
  CreatePlan(const CreateOptions& options, const ImageSource& source);

  /// Collective: the ranks look at the files of all candidates, each at its share, and cut the shards. The cuts depend
  /// on the files alone. Throws DatasetError when a file cannot be looked at.
  void look_at(comm::Communicator& comm, const ImageSource& source);

  [[nodiscard]] const std::vector<SplitPart>& parts() const { return parts_; }
  /// Shards of all parts, those of the first part first.
  [[nodiscard]] int64_t shards() const;
  [[nodiscard]] std::vector<std::string> shard_names() const;
  /// Shard `index` of them all.
  [[nodiscard]] ShardTask task(GrowingFolder& folder, int64_t index) const;
  /// What a shard costs, by cost_of().
  [[nodiscard]] int64_t cost(int64_t index) const;

 private:
  /// One part's shard.
  struct SourcePlace {
    std::size_t part = 0;
    int64_t index = 0;
  };
  [[nodiscard]] SourcePlace place_of(int64_t index) const;
  [[nodiscard]] layout::Range candidates_of(const SourcePlace& place) const;

  std::vector<SplitPart> parts_;
  // One of these for each part.
  std::vector<std::vector<base::FileStamp>> stamps_;  // stamps of the files of its candidates
  std::vector<std::vector<int64_t>> borders_;         // borders of its shards among its candidates
};

}  // namespace ddpm::data::prepare
