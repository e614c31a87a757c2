// Micro-batches on their way to a GPU: the next one is copied while the model works on this one.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/field.h"
#include "data/loader.h"
#include "denoise/batch.h"
#include "denoise/batch_buffer.h"
#include "device/copy_stream.h"

namespace ddpm::denoise {

/// Each batch travels as one copy, from pinned memory, on a stream of its own. There is a buffer for the batch that
/// travels and for each that is in use, taken in turns: events say when the model is done with one on the device, and
/// the copy with the one on the host. With a device that is the host, for tests, copies are done at once.
class BatchStager {
 public:
  /// `fields` are those of the set as they are read. `in_use`: how many batches the caller may have taken before all
  /// that works on the first of them is in its stream, as the stages of a pipeline do.
  BatchStager(std::vector<data::Field> fields, at::Device device, int64_t in_use = 1)
      : fields_(std::move(fields)),
        device_(device),
        stream_(device),
        slots_(static_cast<std::size_t>(staged_batches(in_use))) {}

  [[nodiscard]] bool empty() const { return !ahead_; }
  /// Begins to copy a batch; empty() before. All batches have one size. Waits only if the last copy from the same
  /// buffer is still under way.
  void put(const data::MicroBatch& batch);
  /// That batch, for the caller's stream; !empty() before. Its tensors are good until take() has been called `in_use`
  /// times more, and for all that the caller's stream has been given by then.
  StoredBatch take();

 private:
  struct BatchInFlight {
    at::Tensor host;    // bytes: the step, then the values of each field
    at::Tensor device;  // the same
    device::CopyStream::Mark copied;
    device::CopyStream::Mark used;
  };
  void allocate(BatchInFlight& slot, int64_t bytes);

  std::vector<data::Field> fields_;
  at::Device device_;
  device::CopyStream stream_;
  std::vector<BatchInFlight> slots_;
  std::size_t next_slot_ = 0;
  std::optional<StoredBatch> ahead_;
};

/// The batches of one loader where the model computes: through a stager, or on the host where they were read.
class BatchFeeder {
 public:
  BatchFeeder(std::vector<data::Field> fields, at::Device device, bool staged, int64_t in_use = 1);
  BatchFeeder(std::vector<data::Field> fields, at::Device device, int64_t in_use = 1)
      : BatchFeeder(std::move(fields), device, !device.is_cpu(), in_use) {}

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
