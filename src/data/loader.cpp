#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/check.h"

namespace ddpm::data {

struct BatchLoader::State {
  State(const Dataset& set, const ImageOrder& image_order, const Options& given)
      : dataset(set), order(image_order), options(given) {}

  const Dataset& dataset;
  const ImageOrder order;
  const Options options;
  int64_t taken = 0;  // micro-batches given out
  double seconds_waited = 0.0;
  std::vector<std::byte> scratch;  // of whoever reads

  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<MicroBatch> ready;
  std::exception_ptr failure;
  std::jthread thread;  // last: joined before anything that it uses goes

  [[nodiscard]] int64_t total() const {
    return (options.end_step - options.first_step) * options.layout.accumulation_steps();
  }
  MicroBatch read(int64_t number);
  void read_images(MicroBatch& batch);
  void read_run(MicroBatch& batch, std::span<const std::size_t> run);
  void read_ahead(const std::stop_token& stop);
  MicroBatch take();
};

/// Micro-batch `number`, counted from first_step.
MicroBatch BatchLoader::State::read(int64_t number) {
  const int64_t accumulation = options.layout.accumulation_steps();
  MicroBatch batch;
  batch.step = options.first_step + number / accumulation;
  batch.micro = number % accumulation;
  batch.positions = options.layout.positions(options.rank, batch.micro);
  for (int64_t p = batch.positions.begin; p < batch.positions.end; ++p) {
    batch.indices.push_back(order.image(batch.step * options.layout.global_size + p));
  }
  read_images(batch);
  const std::span<const int64_t> labels = dataset.labels();
  if (!labels.empty()) {
    for (const int64_t index : batch.indices) batch.labels.push_back(labels[static_cast<std::size_t>(index)]);
  }
  return batch;
}

/// In the order of the file, neighbours in one read.
void BatchLoader::State::read_images(MicroBatch& batch) {
  const auto& indices = batch.indices;
  batch.images.resize(indices.size() * dataset.image().bytes());
  std::vector<std::size_t> places(indices.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::sort(places, {}, [&](std::size_t place) { return std::pair(indices[place], place); });
  for (std::size_t begin = 0; begin < places.size();) {
    std::size_t end = begin + 1;
    while (end < places.size() && indices[places[end]] - indices[places[end - 1]] <= 1) ++end;
    read_run(batch, std::span(places).subspan(begin, end - begin));
    begin = end;
  }
}

/// Reads neighbouring images (one may come twice, where the batch is larger than the set) and puts each in its places.
void BatchLoader::State::read_run(MicroBatch& batch, std::span<const std::size_t> run) {
  const std::size_t bytes = dataset.image().bytes();
  const int64_t first = batch.indices[run.front()];
  const int64_t count = batch.indices[run.back()] - first + 1;
  const std::span<std::byte> images(batch.images);
  if (run.size() == 1) {
    dataset.read_block(first, 1, images.subspan(run.front() * bytes, bytes));
    return;
  }
  scratch.resize(static_cast<std::size_t>(count) * bytes);
  dataset.read_block(first, count, scratch);
  for (const std::size_t place : run) {
    const auto offset = static_cast<std::size_t>(batch.indices[place] - first) * bytes;
    std::memcpy(&images[place * bytes], &scratch[offset], bytes);
  }
}

void BatchLoader::State::read_ahead(const std::stop_token& stop) {
  try {
    for (int64_t number = 0; number < total() && !stop.stop_requested(); ++number) {
      MicroBatch batch = read(number);
      std::unique_lock lock(mutex);
      if (!changed.wait(lock, stop, [&] { return std::ssize(ready) < options.prefetch; })) return;
      ready.push_back(std::move(batch));
      changed.notify_all();
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

BatchLoader::BatchLoader(const Dataset& dataset, const ImageOrder& order, const Options& options)
    : state_(std::make_unique<State>(dataset, order, options)) {
  DDPM_CHECK(order.count() == dataset.size(), "an order of {} images for a set of {}", order.count(), dataset.size());
  DDPM_CHECK(options.first_step >= 0 && options.prefetch >= 0, "first step {}, prefetch {}", options.first_step,
             options.prefetch);
  if (options.prefetch == 0) return;
  state_->thread = std::jthread([state = state_.get()](const std::stop_token& stop) { state->read_ahead(stop); });
}

BatchLoader::~BatchLoader() = default;

MicroBatch BatchLoader::next() {
  State& s = *state_;
  DDPM_CHECK(s.taken < s.total(), "micro-batch {} of {}", s.taken, s.total());
  const auto start = std::chrono::steady_clock::now();
  MicroBatch batch = s.options.prefetch == 0 ? s.read(s.taken) : s.take();
  s.seconds_waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ++s.taken;
  return batch;
}

bool BatchLoader::ready() const {
  const std::scoped_lock lock(state_->mutex);
  return !state_->ready.empty();
}

double BatchLoader::seconds_waited() const { return state_->seconds_waited; }

}  // namespace ddpm::data
