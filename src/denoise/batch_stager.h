// Micro-batches on their way to a GPU: the next one is copied while the model works on this one.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/field.h"
#include "data/loader.h"
#include "denoise/batch.h"
#include "device/copy_stream.h"

namespace ddpm::denoise {

/// Each batch travels as one copy, from pinned memory, on a stream of its own. There are two buffers, taken in turns:
/// events say when the model is done with one on the device, and the copy with the one on the host. With a device that
/// is the host, for tests, copies are done at once. `fields` are those of the set as they are read.
class BatchStager {
 public:
  BatchStager(std::vector<data::Field> fields, at::Device device)
      : fields_(std::move(fields)), device_(device), stream_(device) {}

  [[nodiscard]] bool empty() const { return !ahead_; }
  /// Begins to copy a batch; empty() before. All batches have one size. Waits only if the last copy but one is still
  /// under way.
  void put(const data::MicroBatch& batch);
  /// That batch, for the caller's stream; !empty() before. Its tensors are good until the next call of take(), and for
  /// all that the caller's stream has been given by then.
  StoredBatch take();

 private:
  struct Slot {
    at::Tensor host;    // bytes: the step, then the values of each field
    at::Tensor device;  // the same
    device::CopyStream::Mark copied;
    device::CopyStream::Mark used;
  };
  void allocate(Slot& slot, int64_t bytes);

  std::vector<data::Field> fields_;
  at::Device device_;
  device::CopyStream stream_;
  std::array<Slot, 2> slots_;
  std::size_t next_slot_ = 0;
  std::optional<StoredBatch> ahead_;
};

/// The batches of one loader where the model computes: through a stager, or on the host where they were read.
class BatchFeeder {
 public:
  BatchFeeder(std::vector<data::Field> fields, at::Device device, bool staged);
  BatchFeeder(std::vector<data::Field> fields, at::Device device)
      : BatchFeeder(std::move(fields), device, !device.is_cpu()) {}

  /// The loader's next batch; good as long as BatchStager::take() says.
  StoredBatch next(data::BatchLoader& loader);
  /// Begins to copy the batch after it, if it has been read; to be called when the device has been given its work.
  void read_ahead(data::BatchLoader& loader);

 private:
  std::vector<data::Field> fields_;
  at::Device device_;
  std::optional<BatchStager> stager_;
};

}  // namespace ddpm::denoise
