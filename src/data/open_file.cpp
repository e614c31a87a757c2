#include "data/open_file.h"

#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "data/foreign_set.h"
#include "data/shard_check.h"

namespace ddpm::data {

namespace {

/// What this rank alone could not read comes before what follows from it.
BareFile look_into(const h5::File& file, const DatasetOptions& options) {
  try {
    return options.variables.empty() ? open_bare_file(file, options) : open_foreign_file(file, options);
  } catch (const base::DatasetError&) {
    file.expect_no_failure();
    throw;
  }
}

}  // namespace

BareFile open_file(const h5::File& file, const DatasetOptions& options) {
  BareFile bare = look_into(file, options);
  file.expect_no_failure();
  ShardInfo shard;
  shard.file = file.path().filename().string();
  shard.count = bare.info.count;
  shard.size = base::read_as<base::DatasetError>([&] { return base::posix_file_system()->file_size(file.path()); });
  bare.info.shards.push_back(std::move(shard));
  return bare;
}

}  // namespace ddpm::data
