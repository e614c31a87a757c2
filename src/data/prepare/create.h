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

#include "base/file_system.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "data/prepare/create_options.h"
#include "data/prepare/create_result.h"

namespace ddpm::data::prepare {

/// Throws ConfigError for a value of --shards out of range.
void expect_shards(int64_t shards);

/// Collective over `comm`; the same result on every rank. `progress` is called now and then on each rank.
///
/// Throws ConfigError for options out of range, DatasetError when the source is not whole, has more unusable pictures
/// than allowed or holds no usable image, and OutputError when the output exists, another create is at work on it, or
/// writing fails; then no output appears.
CreateResult create(comm::Communicator& comm, base::FileSystem& files, const base::Logger& log,
                    const CreateOptions& options, const std::function<void(const CreateProgress&)>& progress = {});

}  // namespace ddpm::data::prepare
