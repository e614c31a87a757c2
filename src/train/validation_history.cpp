#include "train/validation_history.h"

#include <utility>

#include "base/error.h"
#include "checkpoint/folders.h"
#include "comm/collectives.h"
#include "run/snapshot.h"
#include "train/readable_state.h"

namespace ddpm::train {
namespace {

std::string best_text(const ValidationRecord& record) {
  return record.best_loss ? fmt::format("; the best is {:.6f} of step {}", *record.best_loss, record.best_step) : "";
}

}  // namespace

ValidationHistory::ValidationHistory(std::string set, double min_delta, const base::FileSystem& files,
                                     const checkpoint::CheckpointStore& store, comm::Communicator& world,
                                     const base::Logger& log)
    : set_(std::move(set)), min_delta_(min_delta), files_(files), store_(store), world_(world), log_(log) {}

void ValidationHistory::resume(const checkpoint::Checkpoint& checkpoint) {
  const auto is_own = [&] { return store_.is_own(checkpoint.directory, checkpoint.manifest.step); };
  if (!comm::ask_root(world_, is_own)) return;
  comm::agree(world_,
              [&] { record_ = read_validation_record(checkpoint.manifest.state, run::state_origin(checkpoint)); });
  if (record_.set.empty()) return;
  if (!set_.empty() && record_.set != set_) {
    log_.warn("the validation set is another one now: the best loss and the patience for it start again");
    record_ = {};
    return;
  }
  if (!record_.best_loss) return;
  const bool is_this = record_.best_step == checkpoint.manifest.step;
  const base::Path folder = is_this ? checkpoint.directory : store_.directory(record_.best_step);
  if (comm::ask_root(world_, [&] { return holds_best(folder); })) return;
  log_.warn("{}, the best checkpoint so far, is not there: the next validation counts as the best", folder.string());
  record_.best_loss.reset();
}

/// The step alone does not suffice: the checkpoint may belong to another history.
bool ValidationHistory::holds_best(const base::Path& folder) const {
  try {
    const ValidationRecord there =
        read_validation_record(checkpoint::read_manifest(files_, folder).state, folder.string());
    return there.set == record_.set && there.best_step == record_.best_step && there.best_loss == record_.best_loss;
  } catch (const base::OutputError&) {
    return false;  // gone, or damaged
  }
}

void ValidationHistory::run(FinishedStep& step) {
  record_.set = set_;
  const bool best = record_.add(step.step, step.validated->loss, min_delta_);
  log_.info("step {}: validation loss {:.6f} ({}){}", step.step, step.validated->loss, step.validated->how,
            best ? ", the best so far" : best_text(record_));
}

void ValidationHistory::write(checkpoint::SaveRequest& request) {
  write_validation_record(record_, request.state);
  check_also(request, read_validation_record);
}

void BestCheckpoint::run(FinishedStep& step) {
  step.best = history_.record().best_loss.has_value() && history_.record().best_step == step.step;
}

std::set<int64_t> BestCheckpoint::pinned() const {
  if (!history_.record().best_loss) return {};
  return {history_.record().best_step};
}

}  // namespace ddpm::train
