// A run folder that all ranks of a test share, and tensors whose every element is known.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/file_system.h"
#include "base/log.h"
#include "checkpoint/store.h"
#include "comm/collectives.h"
#include "support/mpi_test.h"
#include "support/temporary_folder.h"

namespace ddpm::checkpoint {

struct KnownTensor {
  std::string name;
  std::vector<int64_t> shape;
  /// Element e of this tensor at `step`.
  [[nodiscard]] float value(int64_t step, int64_t e) const {
    return static_cast<float>(step) + static_cast<float>(e) * 0.5F + static_cast<float>(name.size()) * 1000.0F;
  }
};

inline std::vector<KnownTensor> known_tensors() {
  return {{"model/conv_in.weight", {8, 3, 3, 3}},
          {"model/conv_in.bias", {8}},
          {"adam/step", {}},
          {"ema/time.weight", {5, 7}}};
}

/// Slices with their elements, filled for a save or empty for a load.
class Elements {
 public:
  void add(TensorSlice slice) {
    values_.emplace_back(static_cast<std::size_t>(slice.flat.size()), -1.0F);
    slices_.push_back(std::move(slice));
  }
  void add_whole(const KnownTensor& tensor) { add(whole_slice(tensor.name, base::DType::f32, tensor.shape)); }
  /// Part `index` of `parts` of the tensor's elements.
  void add_part(const KnownTensor& tensor, int64_t parts, int64_t index) {
    TensorSlice slice = whole_slice(tensor.name, base::DType::f32, tensor.shape);
    slice.flat = layout::even_part(slice.flat.size(), parts, index);
    add(std::move(slice));
  }
  /// Sets each element of slices that are flat ranges of whole tensors.
  void fill(int64_t step) {
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      for (std::size_t e = 0; e < values_[i].size(); ++e) values_[i][e] = wanted(i, e, step);
    }
  }
  void expect(int64_t step) const {
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      for (std::size_t e = 0; e < values_[i].size(); ++e) {
        ASSERT_EQ(values_[i][e], wanted(i, e, step)) << slices_[i].name << " element " << e;
      }
    }
  }
  [[nodiscard]] std::vector<LocalSlice> to_save() const {
    std::vector<LocalSlice> out;
    for (std::size_t i = 0; i < slices_.size(); ++i) out.emplace_back(slices_[i], std::as_bytes(std::span(values_[i])));
    return out;
  }
  [[nodiscard]] std::vector<WantedSlice> to_load() {
    std::vector<WantedSlice> out;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      out.emplace_back(slices_[i], std::as_writable_bytes(std::span(values_[i])));
    }
    return out;
  }

 private:
  [[nodiscard]] float wanted(std::size_t i, std::size_t e, int64_t step) const {
    const KnownTensor tensor{slices_[i].name, slices_[i].global_shape};
    return tensor.value(step, slices_[i].flat.begin + static_cast<int64_t>(e));
  }

  std::vector<TensorSlice> slices_;
  std::vector<std::vector<float>> values_;
};

/// Saves the known tensors of `step`, each cut evenly over the ranks of `comm`.
inline SaveReport save_step(CheckpointStore& store, comm::Communicator& comm, int64_t step, Retention retention = {}) {
  Elements elements;
  for (const KnownTensor& tensor : known_tensors()) elements.add_part(tensor, comm.size(), comm.rank());
  elements.fill(step);
  return store.save({.step = step,
                     .state = {{"images_seen", step * 64}},
                     .config_hash = "c0",
                     .dataset_hash = "d0",
                     .slices = elements.to_save(),
                     .retention = std::move(retention)});
}

/// Saves the known tensors with the values of `values_step` as checkpoint `step`.
inline void save_values(CheckpointStore& store, comm::Communicator& comm, int64_t step, int64_t values_step,
                        Retention retention) {
  Elements elements;
  for (const KnownTensor& tensor : known_tensors()) elements.add_part(tensor, comm.size(), comm.rank());
  elements.fill(values_step);
  store.save({.step = step,
              .state = {{"values", values_step}},
              .slices = elements.to_save(),
              .retention = std::move(retention)});
}

/// Loads all known tensors whole, on each rank, and compares them with those of `step`.
inline void expect_loads(CheckpointStore& store, const Checkpoint& checkpoint, int64_t step) {
  Elements elements;
  for (const KnownTensor& tensor : known_tensors()) elements.add_whole(tensor);
  store.load(checkpoint, elements.to_load());
  elements.expect(step);
}

class StoreTest : public testing::Test {
 protected:
  void TearDown() override { comm::barrier(world()); }

  static comm::Communicator& world() { return test::world(); }
  [[nodiscard]] base::Path checkpoints() const { return run_ / "checkpoints"; }
  [[nodiscard]] base::Path step_folder(int64_t step) const { return checkpoints() / step_folder_name(step); }
  [[nodiscard]] std::vector<std::string> names() const { return files_->list(checkpoints()); }
  /// Does something to the files on rank 0, between two barriers.
  template <typename Work>
  void on_disk(Work&& work) {
    comm::agree_on_root(world(), [&] {
      work();
      return std::string();
    });
  }

  std::unique_ptr<test::TemporaryFolder> folder_ =
      world().rank() == 0 ? std::make_unique<test::TemporaryFolder>() : nullptr;  // rank 0's; all ranks use it
  base::Path run_ = comm::broadcast(world(), folder_ ? folder_->path().string() : std::string());
  std::unique_ptr<base::FileSystem> files_ = base::posix_file_system();
  base::Logger logger_{world().rank(), world().size()};
  CheckpointStore store_{*files_, world(), run_, logger_};
};

}  // namespace ddpm::checkpoint
