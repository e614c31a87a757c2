// `ddpm data create`: from a source of images to a dataset, on all ranks.
//
// The images in their order are cut into shards whose files have nearly equal numbers of bytes; shard i is made whole
// by rank i mod size, and leaves out what cannot be decoded. So the bytes do not depend on the number of ranks. What
// cannot be read, which says nothing of the image, ends the command; given again, it continues.
//
// Everything is made in a hidden folder beside the output (.NAME.partial), which is renamed last: the output is whole
// or absent. Each finished shard leaves a journal entry there with its digest and the fingerprint of what it was made
// from (options, names, sizes and times of its files); a later create takes over the shards whose entry still holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/dtype.h"
#include "base/file_system.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "data/prepare/create_options.h"
#include "data/prepare/endings.h"

namespace ddpm::data::prepare {

/// Images gone through on all ranks, as far as this rank can tell from its own share, and all there are.
struct CreateProgress {
  int64_t done = 0;
  int64_t total = 0;
};

struct CreateResult {
  base::DType dtype = base::DType::u8;  ///< of the images
  int64_t images = 0;                   ///< of all sets
  int64_t validation_images = 0;        ///< of them in the validation set
  int64_t skipped = 0;
  std::string first_skipped;  ///< "path: reason"
  EndingCounts other_files;   ///< files that are no pictures that are read
  int64_t shards = 0;
  int64_t reused_shards = 0;  ///< taken over from an earlier create that did not finish
  int64_t classes = 0;
  int64_t bytes = 0;  ///< of all files of the dataset
};

/// Collective over `comm`; the same result on every rank. `progress` is called now and then on each rank.
///
/// Throws ConfigError for options out of range, DatasetError when the source is not whole, has more unusable pictures
/// than allowed or holds no usable image, and OutputError when the output exists, another create is at work on it, or
/// writing fails; then no output appears.
CreateResult create(comm::Communicator& comm, base::FileSystem& files, const base::Logger& log,
                    const CreateOptions& options, const std::function<void(const CreateProgress&)>& progress = {});

}  // namespace ddpm::data::prepare
