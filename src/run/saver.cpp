#include "run/saver.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/signals.h"
#include "comm/collectives.h"

namespace ddpm::run {
namespace {

/// Compares exponents, which vectorises: they are all ones in a number that is not finite.
bool all_finite(std::span<const float> values) {
  uint32_t highest = 0;
  for (const float value : values) highest = std::max(highest, std::bit_cast<uint32_t>(value) & 0x7F800000U);
  return highest != 0x7F800000U;
}

/// The name of a tensor with a value that is not finite, or "". Training has made it then: what it does not change may
/// hold what it likes, such as the -inf of a mask of attention.
std::string first_not_finite(const Snapshot& snapshot) {
  for (std::size_t i = 0; i < snapshot.values.size(); ++i) {
    const at::Tensor& values = snapshot.values[i];
    if (snapshot.fixed[i]) continue;
    if (!all_finite({values.const_data_ptr<float>(), static_cast<std::size_t>(values.numel())})) {
      return snapshot.slices[i].name;
    }
  }
  return {};
}

}  // namespace

std::string text_of(const checkpoint::SaveReport& saved, double stall_seconds) {
  return fmt::format("checkpoint {} written: {:.1f} MB in {:.2f} s; training waited {:.2f} s", saved.directory.string(),
                     static_cast<double>(saved.bytes) / 1e6, saved.seconds, stall_seconds);
}

Saver::Saver(const checkpoint::CheckpointConfig& config, checkpoint::CheckpointStore& store, comm::Communicator& world,
             Committed committed, Repeating repeating, Waiting waiting)
    : config_(config),
      store_(store),
      world_(world),
      committed_(std::move(committed)),
      repeating_(std::move(repeating)),
      waiting_(std::move(waiting)) {}

Saver::~Saver() {
  if (thread_.joinable()) thread_.join();
}

/// Does `work`, collective, and where the ranks agree that something could not be written, once more. A run that has
/// lost its folder, or cannot see its lock, writes nothing again.
template <typename Work>
auto Saver::twice(const Work& work) {
  try {
    return work();
  } catch (const comm::AgreedError& failure) {  // thrown by all ranks together
    if (failure.code() != base::ExitCode::output || !store_.may_write()) throw;
    repeating_(failure);
  }
  return work();
}

void Saver::save(engine::TrainingState& state, const Replica& replica, const std::string& config_hash,
                 const Fill& fill) {
  drain();
  const auto start = base::Clock::now();
  take_snapshot(state, replica, snapshot_);
  newest_step_ = state.progress.step;
  pending_ = twice([&] {
    checkpoint::SaveRequest request = save_request(snapshot_, config_hash, config_);
    if (fill) fill(request);
    return store_.begin(std::move(request));
  });
  writing_.store(true, std::memory_order_release);
  if (!config_.async || !write_beside()) write();
  stall_seconds_ = base::seconds_since(start);
  if (config_.async) return;
  drain();
  snapshot_.values.clear();
}

/// Has a thread write; false where the system lets none be started. The other ranks have theirs all the same, so this
/// one goes on as they do when it has written in its main thread.
bool Saver::write_beside() {
  try {
    thread_ = base::start_without_signals([this] { write(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void Saver::write() noexcept {
  failure_.clear();
  try {
    snapshot_.wait();
    poisoned_ = first_not_finite(snapshot_);
    if (poisoned_.empty()) store_.write_shard(*pending_);
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  writing_.store(false, std::memory_order_release);
}

void Saver::drain() {
  if (!pending_) return;
  waiting_();
  const auto start = base::Clock::now();
  if (thread_.joinable()) thread_.join();
  const checkpoint::SaveReport saved = twice([this, request = pending_->request] {
    if (!pending_) {  // the first attempt has failed, and its folder is gone
      pending_ = store_.begin(request);
      write();
    }
    return commit();
  });
  committed_step_ = newest_step_;
  stall_seconds_ += base::seconds_since(start);
  committed_(saved, stall_seconds_);
}

checkpoint::SaveReport Saver::commit() {
  checkpoint::PendingSave pending = std::move(*pending_);
  pending_.reset();
  const int64_t step = pending.request.step;
  std::string where;  // name of the first tensor with a value that is not finite
  for (const std::string& name : comm::all_gather(world_, poisoned_)) {
    if (where.empty()) where = name;
  }
  try {
    return store_.commit(std::move(pending), poisoned_.empty() ? failure_ : poisoned_ + " is not finite");
  } catch (const comm::AgreedError&) {
    if (where.empty()) throw;
  }
  comm::agree(world_, [&] {
    throw base::NumericsError("step {}: '{}' holds a value that is not finite: this state is not saved", step, where);
  });
  throw base::InternalError("the ranks did not agree on an error");
}

void Saver::guard(const std::function<void()>& work) {
  try {
    work();
  } catch (const comm::AgreedError&) {  // thrown by all ranks together
    const std::exception_ptr first = std::current_exception();
    try {
      drain();
    } catch (const comm::AgreedError&) {
      // The reason for the run's end is the first error.
    }
    std::rethrow_exception(first);
  }
}

}  // namespace ddpm::run
