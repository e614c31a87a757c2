#include "data/fill_shards.h"

#include <optional>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/pulse.h"
#include "comm/collectives.h"

namespace ddpm::data {
namespace {

class Filler {
 public:
  Filler(comm::Communicator& comm, GrowingFolder& folder, const ShardFilling& filling)
      : comm_(comm), folder_(folder), filling_(filling), results_(static_cast<std::size_t>(folder.shards())) {}

  FilledShards run() {
    take_over();
    FilledShards filled;
    for (int64_t i = 0; i < folder_.shards(); ++i) {
      total_ += filling_.images(i).size();
      if (!result(i)) continue;
      ++filled.reused;
      filled.reused_images += filling_.images(i).size();
    }
    tell(filled.reused_images);
    make_missing(filled.reused_images);
    for (auto& one : results_) filled.results.push_back(std::move(one).value());
    return filled;
  }

 private:
  [[nodiscard]] std::optional<ShardResult>& result(int64_t shard) { return results_[static_cast<std::size_t>(shard)]; }

  void tell(int64_t done) const {
    if (filling_.progress) filling_.progress(done, total_);
  }

  /// Each rank looks at some shards; afterwards all know of all.
  void take_over() {
    comm::agree(comm_, [&] {
      for (int64_t i = comm_.rank(); i < folder_.shards(); i += comm_.size()) {
        const std::optional<base::Json> note = folder_.note_of(i, filling_.fingerprint(i));
        if (auto finished = note ? parse(*note, folder_.shard_file(i).string()) : std::nullopt) keep(i, *finished);
        base::pulse();
      }
    });
    share();
  }

  [[nodiscard]] std::optional<ShardResult> parse(const base::Json& json, const std::string& origin) const {
    try {
      return parse_shard_result(json.dump(), filling_.format, origin);
    } catch (const base::DatasetError&) {
      return std::nullopt;  // whatever is wrong with the note, the shard is made anew
    }
  }

  void keep(int64_t shard, ShardResult finished) {
    result(shard) = std::move(finished);
    untold_.push_back(shard);
  }

  /// Tells all ranks the results that each one has got.
  void share() {
    base::Json mine = base::Json::array();
    for (const int64_t i : untold_) mine.push_back({i, base::Json::parse(to_json_text(result(i).value()))});
    untold_.clear();
    for (const std::string& theirs : comm::all_gather(comm_, mine.dump())) {
      for (const base::Json& entry : base::Json::parse(theirs)) {
        const auto shard = entry.at(0).get<int64_t>();
        if (!result(shard)) result(shard) = parse_shard_result(entry.at(1).dump(), filling_.format, "another rank");
      }
    }
  }

  void make_missing(int64_t reused) {
    std::vector<int64_t> missing;
    for (int64_t i = 0; i < folder_.shards(); ++i) {
      if (!result(i)) missing.push_back(i);
    }
    const auto ranks = static_cast<std::size_t>(comm_.size());
    double mine = 0.0;  // images in the shards that this rank makes
    for (auto m = static_cast<std::size_t>(comm_.rank()); m < missing.size(); m += ranks) {
      mine += static_cast<double>(filling_.images(missing[m]).size());
    }
    double done = 0.0;  // how many of these images are made
    for (std::size_t first = 0; first < missing.size(); first += ranks) {
      comm::agree(comm_, [&] {
        const std::size_t at = first + static_cast<std::size_t>(comm_.rank());
        if (at >= missing.size()) return;
        make(missing[at], [&](double made) {
          base::pulse();
          tell(reused + static_cast<int64_t>((done + made) / mine * static_cast<double>(total_ - reused)));
        });
        done += static_cast<double>(filling_.images(missing[at]).size());
      });
    }
    share();
  }

  void make(int64_t shard, const ShardProgress& progress) {
    folder_.clear(shard);
    ShardResult finished = filling_.make(shard, progress);
    folder_.note(shard, filling_.fingerprint(shard), finished.info.sha256, to_json_text(finished));
    keep(shard, std::move(finished));
  }

  comm::Communicator& comm_;
  GrowingFolder& folder_;
  const ShardFilling& filling_;
  std::vector<std::optional<ShardResult>> results_;  // one for each shard; none while the shard is not finished
  std::vector<int64_t> untold_;                      // shards of this rank that other ranks do not know of yet
  int64_t total_ = 0;                                // images
};

}  // namespace

FilledShards fill_shards(comm::Communicator& comm, GrowingFolder& folder, const ShardFilling& filling) {
  return Filler(comm, folder, filling).run();
}

void tell_idle_ranks(const base::Logger& log, int64_t shards, int ranks) {
  if (shards >= ranks) return;
  log.info("{} of {} ranks have work, with {}; --shards asks for more", shards, ranks, base::counted(shards, "shard"));
}

}  // namespace ddpm::data
