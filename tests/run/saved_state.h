// A state that is saved and loaded, without a training around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/arange.h>

#include "base/file_system.h"
#include "base/log.h"
#include "base/sha256.h"
#include "checkpoint/store.h"
#include "comm/collectives.h"
#include "engine/sharded_training.h"
#include "run/saver.h"
#include "support/mpi_test.h"
#include "support/temporary_folder.h"
#include "train/unet_state.h"

namespace ddpm::run::test {

inline comm::Communicator& world() { return ddpm::test::world(); }

/// A UNet's state over the ranks of `comm`, every number of it known, and what saves it.
struct Trained {
  Trained(comm::Communicator& comm, const base::Path& run, int64_t stage, bool async = true,
          std::unique_ptr<base::FileSystem> disk = base::posix_file_system())
      : files(std::move(disk)),
        sharding{.zero_stage = stage,
                 .parts = stage == 0 ? 1 : comm.size(),
                 .index = stage == 0 ? 0 : comm.rank(),
                 .segment_elements = 1000},
        replica{.index = stage == 0 ? comm.rank() : 0,
                .count = stage == 0 ? comm.size() : 1,
                .has_fixed = comm.rank() == 0},
        model(engine::test::tiny_unet(), 2, at::kFloat, at::kCPU, sharding),
        config{.async = async},
        store(*files, comm, run, log),
        saver(
            config, store, comm,
            [this](const auto& saved, double stall_seconds) {
              committed.push_back(saved);
              stalls.push_back(stall_seconds);
            },
            [this](const comm::AgreedError& failure) { failures.push_back(failure); }, [this] { ++waits; }) {}

  /// Other values for each `seed`, all over the state.
  void fill(float seed) {
    float kind = 0.0F;
    const auto fill = [&](const parallel::StateBuffer& buffer) {
      kind += 1.0F;
      for (const auto& entry : model.arena.entries()) {
        const auto count = entry.range.size();
        std::vector<int64_t> shape = entry.shape;
        model.arena.assign(buffer, entry,
                           (at::arange(count, at::kFloat) * 0.25 + seed + 1000.0F * kind).reshape(shape));
      }
    };
    fill(model.arena.master());
    fill(model.exp_avg);
    fill(model.exp_avg_sq);
    for (const auto& average : model.ema) fill(average);
    model.progress.step = static_cast<int64_t>(seed);
  }
  void save() { saver.save(model, replica, "hash"); }

  std::unique_ptr<base::FileSystem> files;
  base::Logger log{1, 2};  // says nothing
  parallel::Sharding sharding;
  Replica replica;
  train::UNetState model;
  checkpoint::CheckpointConfig config;
  std::vector<checkpoint::SaveReport> committed;
  std::vector<double> stalls;               // seconds that training waited for each of them
  std::vector<comm::AgreedError> failures;  // after which something was tried once more
  int64_t waits = 0;                        // for a checkpoint on its way
  checkpoint::CheckpointStore store;
  Saver saver;
};

/// SHA-256 over every value of a checkpoint in the order of names, read whole by each rank. One load reads all tensors:
/// a load is collective, and thousands of them would take most of the test's time.
inline std::string state_hash(checkpoint::CheckpointStore& store, const checkpoint::Checkpoint& checkpoint) {
  std::vector<std::vector<std::byte>> values;
  std::vector<checkpoint::WantedSlice> wanted;
  for (const checkpoint::ManifestTensor& tensor : checkpoint.manifest.tensors) {
    const checkpoint::TensorSlice slice = checkpoint::whole_slice(tensor.name, tensor.dtype, tensor.shape);
    values.emplace_back(static_cast<std::size_t>(checkpoint::byte_count(slice)));
    wanted.push_back({slice, values.back()});
  }
  store.load(checkpoint, wanted);
  std::string all;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::vector<std::byte>& bytes = values[i];
    all += wanted[i].first.name + base::sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  return base::sha256_hex(all);
}

inline base::Path shared_folder(const ddpm::test::TemporaryFolder& own) {
  return comm::broadcast(world(), own.path().string());
}

}  // namespace ddpm::run::test
