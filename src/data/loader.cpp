#include "data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/jobs.h"
#include "base/pulse.h"

namespace ddpm::data {
namespace {

/// Bytes between two images that are read along rather than left out: a second read would cost more.
constexpr int64_t kGapBytes = 16 << 10;
/// The most bytes of one read.
constexpr int64_t kRunBytes = 4 << 20;

int64_t micro_batches_together(int64_t batch_bytes, int64_t together_bytes) {
  return std::max<int64_t>(1, together_bytes / std::max<int64_t>(1, batch_bytes));
}

/// Where an image's values of one field go.
struct Destination {
  int64_t index;
  std::byte* values;
};

}  // namespace

int64_t micro_batches_held(int64_t prefetch, int64_t batch_bytes, int64_t batches, int64_t together_bytes) {
  if (prefetch == 0) return 0;
  const int64_t together = micro_batches_together(batch_bytes, together_bytes);
  return std::min(batches, std::max(prefetch, together) + together);
}

void read_window(const Dataset& dataset, const ImageWindows& windows, std::size_t field, MicroBatch& batch,
                 int64_t place) {
  const std::vector<int64_t> window = windows.place(batch.step, batch.positions.begin + place);
  const std::vector<CoarseAxis> axes = windows.axes_of(dataset.fields()[field]);
  std::vector<int64_t> begin;
  std::vector<int64_t> extent;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    begin.push_back(axes[axis].begin(window[axis], windows.sides[axis]));
    extent.push_back(axes[axis].extent(windows.sides[axis]));
  }
  const std::span<std::byte> values(batch.values[field]);
  const std::size_t bytes = values.size() / batch.indices.size();
  const auto at = static_cast<std::size_t>(place);
  dataset.read_window_unconfirmed(field, batch.indices[at], begin, extent, values.subspan(at * bytes, bytes));
}

struct BatchLoader::State {
  State(const Dataset& set, const ImageOrder& image_order, const BatchLoaderOptions& given)
      : dataset(set), lease(set.lease()), order(image_order), options(given) {}

  const Dataset& dataset;
  const std::shared_ptr<const void> lease;
  const ImageOrder order;
  const BatchLoaderOptions options;
  int64_t taken = 0;  // micro-batches given out
  double seconds_waited = 0.0;

  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<MicroBatch> ready;
  std::exception_ptr failure;
  std::jthread thread;  // last: joined before anything that it uses goes

  [[nodiscard]] int64_t total() const {
    return (options.end_step - options.first_step) * options.layout.accumulation_steps();
  }
  [[nodiscard]] MicroBatch plan(int64_t number) const;
  std::vector<MicroBatch> read(int64_t first, int64_t count, int64_t gap_bytes, const std::stop_token& stop);
  void read_field(std::size_t field, std::span<MicroBatch> batches, int64_t gap_bytes, const std::stop_token& stop);
  void read_run(std::size_t field, std::span<const Destination> run, std::vector<std::byte>& scratch) const;
  void read_windows_of(std::size_t field, std::span<MicroBatch> batches, const std::stop_token& stop);
  bool hand_over(std::vector<MicroBatch> batches, int64_t most_ready, const std::stop_token& stop);
  void read_ahead(const std::stop_token& stop);
  MicroBatch take();
};

/// Micro-batch `number`, counted from first_step, without its images.
MicroBatch BatchLoader::State::plan(int64_t number) const {
  const int64_t accumulation = options.layout.accumulation_steps();
  MicroBatch batch;
  batch.step = options.first_step + number / accumulation;
  batch.micro = number % accumulation;
  batch.positions = options.layout.positions(options.rank, batch.micro);
  for (int64_t p = batch.positions.begin; p < batch.positions.end; ++p) {
    batch.indices.push_back(order.image(batch.step * options.layout.global_size + p));
  }
  batch.windows = options.windows.has_value();
  batch.values = options.windows ? dataset.room_for(batch.indices, *options.windows) : dataset.room_for(batch.indices);
  return batch;
}

/// Micro-batches [first, first + count). Up to `gap_bytes` between images of which none of them wants any are read
/// along. When asked to stop it returns early, and what it returns is not whole. The files are looked at once after all
/// reads: no image of a file that has changed is handed over.
std::vector<MicroBatch> BatchLoader::State::read(int64_t first, int64_t count, int64_t gap_bytes,
                                                 const std::stop_token& stop) {
  std::vector<MicroBatch> batches;
  for (int64_t i = 0; i < count; ++i) batches.push_back(plan(first + i));
  for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
    if (!dataset.fields()[f].is_read_in_blocks()) continue;
    if (options.windows) {
      read_windows_of(f, batches, stop);
    } else {
      read_field(f, batches, gap_bytes, stop);
    }
  }
  dataset.expect_unchanged();
  return batches;
}

/// In the order of the file; where several threads unpack chunks, each takes one run of images after another.
void BatchLoader::State::read_field(std::size_t field, std::span<MicroBatch> batches, int64_t gap_bytes,
                                    const std::stop_token& stop) {
  const std::size_t bytes = dataset.fields()[field].bytes();
  const int64_t gap = gap_bytes / static_cast<int64_t>(bytes);
  std::vector<Destination> wanted;
  for (MicroBatch& batch : batches) {
    std::vector<std::byte>& values = batch.values[field];
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      wanted.push_back({batch.indices[i], &values[i * bytes]});
    }
  }
  std::ranges::sort(wanted, {}, &Destination::index);
  const int64_t longest = std::max<int64_t>(1, kRunBytes / static_cast<int64_t>(bytes));
  std::vector<std::span<const Destination>> runs;
  for (std::size_t begin = 0; begin < wanted.size();) {
    std::size_t end = begin + 1;
    while (end < wanted.size() && wanted[end].index - wanted[end - 1].index <= 1 + gap &&
           wanted[end].index - wanted[begin].index < longest) {
      ++end;
    }
    runs.push_back(std::span(wanted).subspan(begin, end - begin));
    begin = end;
  }
  // One thread unpacks a chunk with several images as a whole, and leaves it to the next runs.
  const bool alone = dataset.bytes_per_read() > bytes;
  const auto threads = alone ? std::size_t{1} : static_cast<std::size_t>(dataset.threads());
  std::vector<std::vector<std::byte>> scratch(threads);
  base::run_jobs(runs.size(), threads, [&](std::size_t number, std::size_t reader) {
    if (!stop.stop_requested()) read_run(field, runs[number], scratch[reader]);
  });
}

/// Image by image, in the order of the file.
void BatchLoader::State::read_windows_of(std::size_t field, std::span<MicroBatch> batches,
                                         const std::stop_token& stop) {
  std::vector<std::pair<MicroBatch*, int64_t>> wanted;  // and the place in it
  for (MicroBatch& batch : batches) {
    for (int64_t i = 0; i < batch.positions.size(); ++i) wanted.emplace_back(&batch, i);
  }
  std::ranges::stable_sort(wanted, {},
                           [](const auto& one) { return one.first->indices[static_cast<std::size_t>(one.second)]; });
  for (const auto& [batch, i] : wanted) {
    if (stop.stop_requested()) return;
    read_window(dataset, *options.windows, field, *batch, i);
  }
}

/// One read, and each image to its destination (one may have several, where a batch is larger than the set).
void BatchLoader::State::read_run(std::size_t field, std::span<const Destination> run,
                                  std::vector<std::byte>& scratch) const {
  const std::size_t bytes = dataset.fields()[field].bytes();
  const int64_t first = run.front().index;
  if (run.size() == 1) {
    dataset.read_unconfirmed(field, first, 1, {run.front().values, bytes});
    return;
  }
  const int64_t count = run.back().index - first + 1;
  scratch.resize(static_cast<std::size_t>(count) * bytes);
  dataset.read_unconfirmed(field, first, count, scratch);
  for (const Destination& to : run) {
    std::memcpy(to.values, &scratch[static_cast<std::size_t>(to.index - first) * bytes], bytes);
  }
}

/// Waits until fewer than `most_ready` are left. False when asked to stop.
bool BatchLoader::State::hand_over(std::vector<MicroBatch> batches, int64_t most_ready, const std::stop_token& stop) {
  std::unique_lock lock(mutex);
  if (!changed.wait(lock, stop, [&] { return std::ssize(ready) < most_ready; })) return false;
  std::ranges::move(batches, std::back_inserter(ready));
  changed.notify_all();
  return true;
}

void BatchLoader::State::read_ahead(const std::stop_token& stop) {
  const auto image_bytes =
      static_cast<int64_t>(options.windows ? options.windows->block_bytes(dataset.fields()) : dataset.block_bytes());
  const int64_t most = micro_batches_together(options.layout.micro_size * image_bytes, options.together_bytes);
  const int64_t most_ready = std::max(options.prefetch, most);
  int64_t together = 1;  // more and more: the first step shall not wait long
  try {
    for (int64_t number = 0; number < total() && !stop.stop_requested();) {
      const int64_t count = std::min(together, total() - number);
      std::vector<MicroBatch> batches;
      try {
        batches = read(number, count, kGapBytes, stop);
      } catch (const ImageError&) {
        together = 1;  // one by one, and nothing along: the failure may be of an image that comes later, or never
        batches = read(number, 1, 0, stop);
      }
      if (stop.stop_requested()) return;
      number += std::ssize(batches);
      if (!hand_over(std::move(batches), most_ready, stop)) return;
      together = std::min(most, 2 * together);
    }
  } catch (...) {
    const std::scoped_lock lock(mutex);
    failure = std::current_exception();
    changed.notify_all();
  }
}

/// What was read before a failure is given out first: the failure comes at the same micro-batch with any prefetch.
MicroBatch BatchLoader::State::take() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return !ready.empty() || failure != nullptr; });
  if (ready.empty()) std::rethrow_exception(failure);
  MicroBatch batch = std::move(ready.front());
  ready.pop_front();
  changed.notify_all();
  return batch;
}

BatchLoader::BatchLoader(const Dataset& dataset, const ImageOrder& order, const BatchLoaderOptions& options)
    : state_(std::make_unique<State>(dataset, order, options)) {
  DDPM_CHECK(order.images() == dataset.size(), "an order of {} images for a set of {}", order.images(), dataset.size());
  DDPM_CHECK(options.first_step >= 0 && options.prefetch >= 0, "first step {}, prefetch {}", options.first_step,
             options.prefetch);
  if (options.prefetch == 0) return;
  state_->thread = std::jthread([state = state_.get()](const std::stop_token& stop) { state->read_ahead(stop); });
}

BatchLoader::~BatchLoader() = default;

MicroBatch BatchLoader::next() {
  State& s = *state_;
  DDPM_CHECK(s.taken < s.total(), "micro-batch {} of {}", s.taken, s.total());
  const auto start = base::Clock::now();
  MicroBatch batch = s.options.prefetch == 0 ? std::move(s.read(s.taken, 1, 0, {}).front()) : s.take();
  s.seconds_waited += base::seconds_since(start);
  ++s.taken;
  base::pulse();
  return batch;
}

bool BatchLoader::ready() const {
  const std::scoped_lock lock(state_->mutex);
  return !state_->ready.empty();
}

double BatchLoader::seconds_waited() const { return state_->seconds_waited; }

}  // namespace ddpm::data
