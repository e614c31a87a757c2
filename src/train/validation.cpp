#include "train/validation.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "checkpoint/folders.h"
#include "comm/collectives.h"

namespace ddpm::train {
namespace {

/// Whatever the way they are written.
bool same_folder(const base::Path& a, const base::Path& b) {
  const auto full = [](const base::Path& path) { return (std::filesystem::absolute(path) / "").lexically_normal(); };
  return full(a) == full(b);
}

std::string best_text(const ValidationRecord& record) {
  return record.best_loss ? fmt::format("; the best is {:.6f} of step {}", *record.best_loss, record.best_step) : "";
}

}  // namespace

denoise::ValidationSet open_validation_set(const Config& config, const data::Dataset& training,
                                           const nn::UNet2DConfig& model, at::Device device,
                                           comm::Communicator& world) {
  const denoise::ValidationSet::Options options{.images = config.validation.images,
                                                .batch = config.batch.micro_size,
                                                .seed = static_cast<uint64_t>(config.run.seed),
                                                .diffusion = config.diffusion,
                                                .device = device};
  return denoise::make_validation_set(
      data::Dataset::open(world, *config.data.validation, data::dataset_options(config.data)), options, training, model,
      world);
}

void warn_of_unused_set(const Config& config, const base::Logger& log) {
  if (!config.data.validation || config.validation.every_steps > 0) return;
  log.warn("data.validation is set, but validation.every_steps = 0: the validation set is not used");
}

Validation::Validation(const Task& setup, comm::Communicator& world, const base::Logger& log)
    : setup_(setup), world_(world), log_(log) {
  warn_of_unused_set(setup.config, log);
  if (setup.config.validation.every_steps == 0) return;
  set_.emplace(open_validation_set(setup.config, setup.dataset, setup.model, setup.place.device, world));
}

void Validation::resume(const checkpoint::Checkpoint& checkpoint, const checkpoint::CheckpointStore& store,
                        const base::FileSystem& files) {
  if (!same_folder(checkpoint.directory, store.directory(checkpoint.manifest.step))) return;
  comm::agree(world_,
              [&] { record_ = read_validation_record(checkpoint.manifest.state, checkpoint.directory.string()); });
  if (record_.set.empty()) return;
  if (set_ && record_.set != set_->name()) {
    log_.warn("the validation set is another one now: the best loss and the patience for it begin anew");
    record_ = {};
    return;
  }
  if (!record_.best_loss) return;
  const base::Path folder = store.directory(record_.best_step);
  if (comm::ask_root(world_, [&] { return is_best(files, folder); })) return;
  log_.warn("{}, the best checkpoint so far, is not there: the next validation counts as the best", folder.string());
  record_.best_loss.reset();
}

/// The step alone does not tell: it may be a checkpoint of another history.
bool Validation::is_best(const base::FileSystem& files, const base::Path& folder) const {
  try {
    const ValidationRecord there =
        read_validation_record(checkpoint::read_manifest(files, folder).state, folder.string());
    return there.set == record_.set && there.best_step == record_.best_step && there.best_loss == record_.best_loss;
  } catch (const base::OutputError&) {
    return false;  // gone, or damaged
  }
}

bool Validation::due(int64_t step, bool last) const {
  return set_ && (last || step % setup_.config.validation.every_steps == 0);
}

ValidationOutcome Validation::run(DenoisingStep& optimizer, const nn::UNet2D& unet, int64_t step) {
  const auto began = base::Clock::now();
  std::vector<double> losses;
  optimizer.with_model_weights([&](nn::UnitExecutor& executor) { losses = set_->losses(unet, executor); });
  const double seconds = base::seconds_since(began);

  const double loss = denoise::mean_loss(losses);
  if (!std::isfinite(loss)) warn_of_losses_that_are_not_finite(losses, step);
  record_.set = set_->name();
  const bool best = record_.add(step, loss, setup_.config.early_stopping.min_delta);
  log_.info("step {}: validation loss {:.6f} ({} in {:.1f} s){}", step, loss, base::counted(losses.size(), "image"),
            seconds, best ? ", the best so far" : best_text(record_));
  return {loss, best};
}

void Validation::warn_of_losses_that_are_not_finite(const std::vector<double>& losses, int64_t step) const {
  const auto odd = [](double loss) { return !std::isfinite(loss); };
  log_.warn("step {}: of {}, {} had a validation loss that is not finite; the first is image {}", step,
            base::counted(losses.size(), "image"), std::ranges::count_if(losses, odd),
            std::ranges::find_if(losses, odd) - losses.begin());
}

std::set<int64_t> Validation::pinned() const {
  if (!record_.best_loss) return {};
  return {record_.best_step};
}

void Validation::close() {
  if (set_) set_->close();
}

}  // namespace ddpm::train
