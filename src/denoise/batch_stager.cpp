#include "denoise/batch_stager.h"

#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>

#include "base/check.h"

namespace ddpm::denoise {
namespace {

/// Where the parts of a batch lie in its buffer, in bytes. Images begin where 16 bytes can be read at once.
struct BufferLayout {
  int64_t labels = sizeof(int64_t);
  int64_t labels_end;
  int64_t images;
  int64_t end;

  explicit BufferLayout(const data::MicroBatch& batch)
      : labels_end(labels + std::ssize(batch.labels) * static_cast<int64_t>(sizeof(int64_t))),
        images((labels_end + 15) / 16 * 16),
        end(images + std::ssize(batch.images)) {}
};

void write(const at::Tensor& buffer, int64_t offset, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(static_cast<std::byte*>(buffer.mutable_data_ptr()) + offset, from, bytes);
}

}  // namespace

void BatchStager::put(const data::MicroBatch& batch) {
  DDPM_CHECK(empty(), "a batch is there already, of step {}", ahead_->step);
  const BufferLayout layout(batch);
  Slot& slot = slots_.at(next_slot_);
  next_slot_ = 1 - next_slot_;
  if (!slot.host.defined()) {
    for (Slot& each : slots_) allocate(each, layout.end);
  }
  DDPM_CHECK(slot.host.numel() == layout.end, "a micro-batch of {} bytes, after some of {}", layout.end,
             slot.host.numel());
  slot.copied.wait();
  write(slot.host, 0, &batch.step, sizeof(batch.step));
  write(slot.host, layout.labels, batch.labels.data(), batch.labels.size() * sizeof(int64_t));
  write(slot.host, layout.images, batch.images.data(), batch.images.size());
  stream_.after(slot.used);
  stream_.copy(slot.device, slot.host);
  slot.copied = stream_.mark();

  const auto part = [&slot](int64_t begin, int64_t end, at::ScalarType dtype) {
    return slot.device.narrow(0, begin, end - begin).view(dtype);
  };
  const bool is_u8 = format_.dtype == base::DType::u8;
  ahead_ = StoredBatch{.step = batch.step,
                       .positions = batch.positions,
                       .step_on_device = part(0, layout.labels, at::kLong).squeeze(0),
                       .images = part(layout.images, layout.end, is_u8 ? at::kByte : at::kFloat)
                                     .view({-1, format_.height, format_.width, format_.channels}),
                       .labels = {}};
  if (!batch.labels.empty()) ahead_->labels = part(layout.labels, layout.labels_end, at::kLong);
}

StoredBatch BatchStager::take() {
  DDPM_CHECK(!empty(), "there is no batch");
  // All that uses the other slot's batch, given out before, is in the caller's stream by now.
  slots_.at(next_slot_).used = stream_.mark_caller();
  stream_.before_caller();
  return *std::exchange(ahead_, std::nullopt);
}

void BatchStager::allocate(Slot& slot, int64_t bytes) {
  slot.host = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(!device_.is_cpu()));
  slot.device = at::empty({bytes}, at::TensorOptions(at::kByte).device(device_));
  stream_.keep(slot.device);
  slot.used = stream_.mark_caller();  // the memory may have been another tensor's a moment ago
}

BatchFeeder::BatchFeeder(const data::ImageFormat& format, at::Device device, bool staged)
    : format_(format), device_(device) {
  if (staged) stager_.emplace(format, device);
}

StoredBatch BatchFeeder::next(data::BatchLoader& loader) {
  if (!stager_) return stored_batch(loader.next(), format_, device_);
  if (stager_->empty()) stager_->put(loader.next());
  return stager_->take();
}

void BatchFeeder::read_ahead(data::BatchLoader& loader) {
  if (stager_ && stager_->empty() && loader.ready()) stager_->put(loader.next());
}

}  // namespace ddpm::denoise
