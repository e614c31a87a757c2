// `ddpm data append` and `ddpm data reshard`: datasets that grow, and datasets cut into other shards.
#pragma once

#include <functional>
#include <optional>

#include "base/file_system.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "data/prepare/create_options.h"
#include "data/prepare/create_result.h"

namespace ddpm::data::prepare {

/// Makes images of a source as `data create` does, and puts them behind those of a dataset: as further shards, with the
/// size, fields, transforms and class names that the dataset has. The new shards grow in a hidden folder in the
/// dataset's and are named before dataset.json is replaced, which lists them: readers see the old set or the new one.
/// After an interruption the same command continues; until it has ended, the old set is whole.
struct AppendOptions {
  base::Path dataset;
  SourceOptions source;
  ArrayOptions arrays;
  Crop crop = Crop::center;
  uint64_t seed = 0;
  int shards = 8;  ///< to add, fewer when there are fewer images
};

struct AppendResult {
  CreateResult added;
  int64_t images = 0;  ///< images that the dataset has now
  int64_t shards = 0;
};

/// Collective; the same result on every rank. Throws as create() does, and DatasetError's code when the images do not
/// fit the dataset: then it stays as it was.
AppendResult append(comm::Communicator& comm, base::FileSystem& files, const base::Logger& log,
                    const AppendOptions& options, const std::function<void(const CreateProgress&)>& progress = {});

struct ReshardOptions {
  base::Path output;
  int shards = 8;
  std::optional<int64_t> alignment = {};  ///< see CreateOptions; without one, that of the dataset
};

/// Writes the images of a dataset, in their order and with all that is recorded of them, as a new one of so many
/// shards; its content hash is the same. Collective; throws as create() does.
CreateResult reshard(comm::Communicator& comm, base::FileSystem& files, const base::Path& dataset,
                     const ReshardOptions& options, const std::function<void(const CreateProgress&)>& progress = {});

}  // namespace ddpm::data::prepare
