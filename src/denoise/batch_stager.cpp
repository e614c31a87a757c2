#include "denoise/batch_stager.h"

#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>

#include "base/check.h"
#include "denoise/batch_buffer.h"
#include "device/scalar_type.h"

namespace ddpm::denoise {
namespace {

std::vector<int64_t> bytes_of_fields(const data::MicroBatch& batch) {
  std::vector<int64_t> bytes;
  bytes.reserve(batch.values.size());
  for (const auto& values : batch.values) bytes.push_back(std::ssize(values));
  return bytes;
}

void write(const at::Tensor& buffer, int64_t offset, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(static_cast<std::byte*>(buffer.mutable_data_ptr()) + offset, from, bytes);
}

}  // namespace

void BatchStager::put(const data::MicroBatch& batch) {
  DDPM_CHECK(empty(), "a batch is there already, of step {}", ahead_->step);
  const BatchBuffer layout(bytes_of_fields(batch));
  BatchInFlight& slot = slots_.at(next_slot_);
  next_slot_ = (next_slot_ + 1) % slots_.size();
  if (!slot.host.defined()) {
    for (BatchInFlight& each : slots_) allocate(each, layout.end);
  }
  DDPM_CHECK(slot.host.numel() == layout.end, "a micro-batch of {} bytes, after some of {}", layout.end,
             slot.host.numel());
  slot.copied.wait();
  write(slot.host, 0, &batch.step, sizeof(batch.step));
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const auto& values = batch.values.at(f);
    write(slot.host, layout.values[f].begin, values.data(), values.size());
  }
  stream_.after(slot.used);
  stream_.copy(slot.device, slot.host);
  slot.copied = stream_.mark();

  const auto part = [&slot](layout::Range range, at::ScalarType dtype) {
    return slot.device.narrow(0, range.begin, range.size()).view(dtype);
  };
  ahead_ = StoredBatch{.step = batch.step,
                       .positions = batch.positions,
                       .step_on_device = part({0, static_cast<int64_t>(sizeof(int64_t))}, at::kLong).squeeze(0),
                       .values = {},
                       .windows = batch.windows};
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    ahead_->values.push_back(part(layout.values[f], device::scalar_type(fields_[f].dtype))
                                 .view(batch_shape(fields_[f], batch.positions.size())));
  }
}

StoredBatch BatchStager::take() {
  DDPM_CHECK(!empty(), "there is no batch");
  // All that uses the oldest batch that was given out is in the caller's stream by now.
  slots_.at(next_slot_).used = stream_.mark_caller();
  stream_.before_caller();
  return *std::exchange(ahead_, std::nullopt);
}

void BatchStager::allocate(BatchInFlight& slot, int64_t bytes) {
  slot.host = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(!device_.is_cpu()));
  slot.device = at::empty({bytes}, at::TensorOptions(at::kByte).device(device_));
  stream_.keep(slot.device);
  slot.used = stream_.mark_caller();  // the memory may have been another tensor's a moment ago
}

BatchFeeder::BatchFeeder(std::vector<data::Field> fields, at::Device device, bool staged, int64_t in_use)
    : fields_(std::move(fields)), device_(device) {
  if (staged) stager_.emplace(fields_, device, in_use);
}

StoredBatch BatchFeeder::next(data::BatchLoader& loader) {
  if (!stager_) return stored_batch(loader.next(), fields_, device_);
  if (stager_->empty()) stager_->put(loader.next());
  return stager_->take();
}

void BatchFeeder::read_ahead(data::BatchLoader& loader) {
  if (stager_ && stager_->empty() && loader.ready()) stager_->put(loader.next());
}

}  // namespace ddpm::denoise
