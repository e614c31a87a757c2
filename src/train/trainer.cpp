#include "train/trainer.h"

#include <ATen/Parallel.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/terminal.h"
#include "checkpoint/store.h"
#include "comm/collectives.h"
#include "config/resolve.h"
#include "denoise/image_record.h"
#include "denoise/image_values.h"
#include "denoise/shared_weights.h"
#include "denoise/unet_tensors.h"
#include "device/choose_device.h"
#include "engine/replicas.h"
#include "observe/progress_bar.h"
#include "run/resume.h"
#include "run/run_folder.h"
#include "run/run_start.h"
#include "run/saver.h"
#include "run/supervision.h"
#include "train/denoising_step.h"
#include "train/export.h"
#include "train/readable_state.h"
#include "train/run_logs.h"
#include "train/step_metrics.h"
#include "train/task.h"
#include "train/validation.h"

namespace ddpm::train {
namespace {

class Trainer {
 public:
  Trainer(Configuration& configuration, const run::Runtime& runtime);
  void run() {
    run_.guard([this] { train(); });
  }

 private:
  void train();
  void start(const std::optional<checkpoint::Checkpoint>& checkpoint);
  void load(const checkpoint::Checkpoint& checkpoint);
  void initialize_weights();
  void training_loop();
  [[nodiscard]] bool finished() const;
  void say_how_it_ended() const;
  void report(const StepOutcome& outcome, const std::optional<ValidationOutcome>& validated);
  bool settles(int64_t step);
  bool conclude(const StepOutcome& outcome);
  void save();
  void drain();
  void say_saved(const checkpoint::SaveReport& saved, double stall_seconds);
  void end_on_request();

  const Configuration& configuration_;
  const run::Runtime& runtime_;
  comm::Communicator& world_;
  const base::Logger& log_;
  run::Supervision supervision_;
  Task setup_;
  const Config& config_;
  run::Resume resume_;
  run::RunFolder run_;
  checkpoint::CheckpointStore store_;
  Validation validation_;
  UNetState model_;
  device::DataParallelDevice data_parallel_;
  DenoisingStep step_;
  RunLogs logs_;
  std::optional<observe::ProgressBar> progress_;
  run::Saver saver_;
};

Trainer::Trainer(Configuration& configuration, const run::Runtime& runtime)
    : configuration_(configuration),
      runtime_(runtime),
      world_(runtime.session.world()),
      log_(runtime.log),
      supervision_(configuration.values().fault, runtime),
      setup_(Task::make(configuration, runtime)),
      config_(setup_.config),
      resume_(config_.checkpoint.resume),
      run_(runtime.files, world_, log_, config_.run.directory, configuration.schema()),
      store_(runtime.files, world_, run_.path(), log_),
      validation_(setup_, world_, log_),
      model_(setup_.model, config_.ema.count(), setup_.place.compute_dtype, setup_.place.device, setup_.place.sharding),
      data_parallel_(setup_.place.device, runtime.session),
      step_(setup_, model_, world_, data_parallel_.communicator(), supervision_,
            engine::StepGraph(data_parallel_.make_graph(), world_, log_)),
      logs_(runtime.files, run_, log_),
      saver_(config_.checkpoint, store_, world_, [this](const auto& saved, double stall) { say_saved(saved, stall); }) {
  supervision_.watch(saver_, run_);
}

void Trainer::train() {
  const auto checkpoint = resume_.find(run_, store_, world_);
  if (checkpoint) validation_.resume(*checkpoint, store_, runtime_.files);
  const bool complete = checkpoint && (checkpoint->manifest.step >= setup_.total_steps || validation_.stops());
  if (complete && run_.has_model()) {
    log_.info("{}: done: {}, {} wanted{}; nothing to do", run_.path().string(),
              base::counted(checkpoint->manifest.step, "step"), setup_.total_steps,
              checkpoint->manifest.step < setup_.total_steps ? ", stopped early" : "");
    return;
  }
  start(checkpoint);
  saver_.guard([this] { training_loop(); });
  supervision_.enter(engine::RunPhase::finish, model_.progress.step);
  say_how_it_ended();
  run_.require_owned();
  export_model(model_, setup_, configuration_, runtime_, run_.model());
  run_.drop_previous_model();
  validation_.close();
  setup_.dataset.close(world_);
  log_.info("the model is in {}", run_.model().string());
  run_.release();
}

/// Loads or makes the weights, then takes the run folder: nothing is written before all of that has worked.
void Trainer::start(const std::optional<checkpoint::Checkpoint>& checkpoint) {
  denoise::warn_of_values(setup_.dataset, config_.diffusion.scheduler, runtime_);
  if (checkpoint) {
    load(*checkpoint);
  } else {
    initialize_weights();
  }
  step_.state_changed();
  run::start_run({run_, store_, saver_, supervision_, resume_}, runtime_, checkpoint, model_, config_.fault);
  supervision_.note(model_.progress.step);
  comm::do_on_root(
      world_, [this] { logs_.begin(model_.progress.step, config_.logging.tensorboard, runtime_.session.host_name()); });
  const auto& layout = setup_.place.layout;
  log_.info("{} {}: {}, {}, {}", checkpoint ? "resuming" : "starting", run_.path().string(),
            base::counted(model_.arena.parameter_count(), "parameter"), base::counted(setup_.dataset.size(), "image"),
            base::inclusive_range(model_.progress.step + 1, setup_.total_steps, "step"));
  log_.info("{} × {} × {} = global batch {}; {}, {} per rank", base::counted(layout.data_parallel_size, "rank"),
            base::counted(layout.micro_size, "image"), base::counted(layout.accumulation_steps(), "accumulation step"),
            layout.global_size, setup_.place.device.str(), base::counted(at::get_num_threads(), "thread"));
}

void Trainer::load(const checkpoint::Checkpoint& checkpoint) {
  comm::agree(world_,
              [&] { run::expect_same_images(checkpoint, setup_.dataset.content_hash(), setup_.dataset.path()); });
  resume_.load(checkpoint, model_, store_, configuration_.schema(), world_, log_);
}

void Trainer::initialize_weights() {
  if (!config_.model_source.pretrained) {
    model_.initialize(static_cast<uint64_t>(config_.run.seed));
    return;
  }
  denoise::for_each_weight(*config_.model_source.pretrained, denoise::expected_shapes(model_.unet), world_,
                           [this](const std::string& name, const at::Tensor& values) { model_.assign(name, values); });
  model_.start_from_master();
}

void Trainer::training_loop() {
  const int64_t first_step = model_.progress.step;
  data::BatchLoader loader(setup_.dataset, setup_.order,
                           {.layout = setup_.place.layout,
                            .rank = world_.rank(),
                            .first_step = first_step,
                            .end_step = setup_.total_steps,
                            .prefetch = config_.data.prefetch});
  progress_.emplace(observe::progress_style(config_.logging.progress, log_.speaks(), base::stderr_is_terminal()),
                    observe::ProgressBar::Options{.label = "train",
                                                  .first = first_step,
                                                  .total = setup_.total_steps,
                                                  .images_per_unit = setup_.place.layout.global_size});
  while (!finished()) {
    bool best = false;
    const bool begun = step_.begin(loader);
    while (const auto outcome = step_.finished(!begun || settles(step_.last_begun()))) best = conclude(*outcome);
    if (!step_.settled()) continue;
    const bool stops = supervision_.stop().decided() && !finished();
    const int64_t step = model_.progress.step;
    if (step != saver_.newest_step() && (finished() || stops || best || step % config_.checkpoint.every_steps == 0))
      save();
    if (stops) end_on_request();
  }
  drain();
  progress_.reset();
}

/// Whether something is to be done after a step for which the state has to be that of the step.
bool Trainer::settles(int64_t step) {
  return step == setup_.total_steps || step % config_.checkpoint.every_steps == 0 || validation_.due(step, false) ||
         supervision_.stop().decided();
}

/// After a step: validates where that is due, and reports. Whether the state is the best so far. A run that is about to
/// stop has no time for a validation.
bool Trainer::conclude(const StepOutcome& outcome) {
  const int64_t step = model_.progress.step;
  const bool last = step == setup_.total_steps;
  std::optional<ValidationOutcome> validated;
  if (validation_.due(step, last) && (last || !supervision_.stop().decided())) {
    if (progress_) progress_->clear();
    supervision_.enter(engine::RunPhase::validation, step);
    validated = validation_.run(step_, model_.unet, step);
  }
  report(outcome, validated);
  return validated && validated->best;
}

void Trainer::end_on_request() {
  drain();
  progress_.reset();
  validation_.close();
  setup_.dataset.close(world_);
  run_.release();
  supervision_.end(model_.progress.step);
}

bool Trainer::finished() const { return model_.progress.step >= setup_.total_steps || validation_.stops(); }

void Trainer::say_how_it_ended() const {
  const ValidationRecord& record = validation_.record();
  if (model_.progress.step < setup_.total_steps) {
    log_.info("stopped early at step {} of {}: {} in a row without an improvement", model_.progress.step,
              setup_.total_steps, base::counted(record.waited, "validation"));
  }
  if (record.best_loss) {
    log_.info("the best validation loss, {:.6f}, is that of {}", *record.best_loss,
              store_.directory(record.best_step).string());
  }
}

void Trainer::report(const StepOutcome& outcome, const std::optional<ValidationOutcome>& validated) {
  const int64_t step = model_.progress.step;
  if (progress_) progress_->update(step, outcome.sums.loss / static_cast<double>(setup_.place.layout.global_size));
  if (step % config_.logging.every_steps != 0 && step != 1 && step != setup_.total_steps && !validated) return;

  observe::StepMetrics metrics =
      step_metrics(outcome, model_.progress, setup_.place.layout.global_size, setup_.place.device, world_);
  if (validated) metrics.validation_loss = validated->loss;
  comm::do_on_root(world_, [&] { logs_.write(metrics); });
}

void Trainer::save() {
  supervision_.enter(engine::RunPhase::checkpoint, model_.progress.step);
  engine::compare_before_saving(model_, world_, config_.fault.compare_replicas_every);
  comm::do_on_root(world_, [this] { logs_.sync(model_.progress.step); });
  saver_.save(model_, setup_.place.replica, config::identity_hash(configuration_.schema()),
              [this](checkpoint::SaveRequest& request) {
                check_readable_state(request);
                denoise::write_image_record(
                    denoise::ImageRecord::of(setup_.dataset.info(), !setup_.dataset.labels().empty()), request.state);
                validation_.write(request.state);
                request.dataset_hash = setup_.dataset.content_hash();
                request.retention.pinned = validation_.pinned();
              });
}

void Trainer::drain() {
  supervision_.enter(engine::RunPhase::checkpoint, model_.progress.step);
  saver_.drain();
}

void Trainer::say_saved(const checkpoint::SaveReport& saved, double stall_seconds) {
  supervision_.note(model_.progress.step);
  if (progress_) progress_->clear();
  log_.info("{}", run::text_of(saved, stall_seconds));
}

}  // namespace

void train(Configuration& configuration, const run::Runtime& runtime) { Trainer(configuration, runtime).run(); }

}  // namespace ddpm::train
