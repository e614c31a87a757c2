// Datasets of fields: their values as they are, from NumPy's arrays, HDF5 files and other datasets, on all ranks.
//
// Images are cut into shards of equal numbers; shard i is written by rank i mod size. Transforms follow from the values
// once all shards are written, before the set appears under its name.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/file_system.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "data/format.h"
#include "data/prepare/create_options.h"
#include "data/prepare/create_result.h"
#include "data/prepare/field_source.h"

namespace ddpm::data::prepare {

/// Whether the source is arrays, as `arrays` or its first file say. Throws DatasetError when it cannot be read.
bool holds_arrays(const SourceOptions& options, const ArrayOptions& arrays);

/// Opens the source on all ranks. Collective; throws the same error on all ranks.
std::unique_ptr<FieldSource> open_arrays(comm::Communicator& comm, const SourceOptions& source,
                                         const ArrayOptions& options);

/// The fields that a set of `source` is to have: those of each image first. Names and units are those that are given.
/// Throws ConfigError for names of fields or numbers of variables that do not fit.
std::vector<Field> named_fields(const FieldSource& source, const ArrayOptions& options);

/// Writes `source` into `output` as so many shards, or one for each image where there are fewer. `transforms` are those
/// of --transform. With `statistics` they are recorded in place of those of the values. Collective; the same result on
/// every rank. Throws OutputError when the output exists or cannot be written, and DatasetError's code for values that
/// no set may hold; then no output appears.
struct FieldsJob {
  base::Path output;
  int shards = 8;
  int64_t alignment = 0;           ///< see CreateOptions
  std::vector<Field> fields = {};  ///< named_fields()
  std::string transforms = {};
  std::vector<ChannelStatistics> statistics = {};
  Journal journal = Journal::cleared;  ///< what becomes of the notes on finished shards
};
CreateResult write_fields(comm::Communicator& comm, base::FileSystem& files, FieldSource& source, const FieldsJob& job,
                          const std::function<void(const CreateProgress&)>& progress);

/// `data create` of arrays: open_arrays(), then write_fields().
CreateResult create_fields(comm::Communicator& comm, base::FileSystem& files, const base::Logger& log,
                           const CreateOptions& options, const std::function<void(const CreateProgress&)>& progress);

}  // namespace ddpm::data::prepare
