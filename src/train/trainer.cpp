#include "train/trainer.h"

#include <ATen/Parallel.h>

#include "base/error.h"
#include "checkpoint/store.h"
#include "comm/collectives.h"
#include "interop/diffusers_reader.h"
#include "observe/event_writer.h"
#include "observe/metrics_log.h"
#include "observe/progress_bar.h"
#include "train/checkpointing.h"
#include "train/device.h"
#include "train/export.h"
#include "train/image_state.h"
#include "train/optimizer_step.h"
#include "train/run_directory.h"
#include "train/setup.h"
#include "train/step_metrics.h"
#include "train/validation.h"

namespace ddpm::train {
namespace {

class Trainer {
 public:
  Trainer(const Configuration& configuration, const Runtime& runtime);
  void run();

 private:
  void start(const std::optional<checkpoint::Checkpoint>& checkpoint);
  void load(const checkpoint::Checkpoint& checkpoint);
  void initialize_weights();
  void training_loop();
  [[nodiscard]] bool finished() const;
  void say_how_it_ended() const;
  void report(const StepOutcome& outcome, const std::optional<ValidationOutcome>& validated);
  void save();

  const Configuration& configuration_;
  const Runtime& runtime_;
  comm::Communicator& world_;
  const base::Logger& log_;
  Setup setup_;
  const Config& config_;
  RunDirectory run_;
  checkpoint::CheckpointStore store_;
  Validation validation_;
  ModelState model_;
  DataParallelDevice data_parallel_;
  OptimizerStep step_;
  observe::MetricsLog metrics_;
  std::optional<observe::EventWriter> events_;
  std::optional<observe::ProgressBar> progress_;
};

Trainer::Trainer(const Configuration& configuration, const Runtime& runtime)
    : configuration_(configuration),
      runtime_(runtime),
      world_(runtime.session.world()),
      log_(runtime.log),
      setup_(Setup::make(configuration, runtime)),
      config_(setup_.config),
      run_(runtime.files, world_, log_, configuration),
      store_(runtime.files, world_, run_.path(), log_),
      validation_(setup_, world_, log_),
      model_(setup_.model, config_.ema.count(), setup_.compute_dtype, setup_.device, setup_.sharding),
      data_parallel_(setup_.device, runtime.session),
      step_(setup_, model_, world_, data_parallel_.communicator()),
      metrics_(runtime.files, run_.metrics()) {}

/// What checkpoint.resume names, however it is written.
std::string full_name(const std::string& path) {
  std::string name = std::filesystem::absolute(path).lexically_normal().string();
  if (name.ends_with('/')) name.pop_back();
  return name;
}

/// The newest readable checkpoint, if the run went on from `origin` before: the same command, given again, continues.
std::optional<checkpoint::Checkpoint> find_descendant(checkpoint::CheckpointStore& store, const std::string& origin) {
  try {
    auto found = store.find();
    if (found && found->manifest.state.value("resumed_from", std::string()) == origin) return found;
  } catch (const comm::AgreedError&) {
    // No checkpoint of the run is readable: then the one that was named is the way out.
  }
  return std::nullopt;
}

/// The checkpoint to go on from, or none for a new run.
std::optional<checkpoint::Checkpoint> find_checkpoint(const Config& config, const RunDirectory& run,
                                                      checkpoint::CheckpointStore& store, comm::Communicator& world) {
  const std::string& resume = config.checkpoint.resume;
  if (resume != "auto" && resume != "never") {
    auto found = run.resumes() ? find_descendant(store, full_name(resume)) : std::nullopt;
    return found ? std::move(found) : store.open(resume);
  }
  if (!run.resumes()) return std::nullopt;
  auto found = store.find();
  comm::agree(world, [&] {
    if (!found || resume != "never") return;
    throw base::OutputError("{} has a checkpoint of step {}, but checkpoint.resume = \"never\": name another folder",
                            run.path().string(), found->manifest.step);
  });
  return found;
}

void Trainer::run() {
  const auto checkpoint = find_checkpoint(config_, run_, store_, world_);
  if (checkpoint) validation_.resume(*checkpoint, store_, runtime_.files);
  const bool complete = checkpoint && (checkpoint->manifest.step >= setup_.total_steps || validation_.stops());
  if (complete && run_.has_model()) {
    log_.info("{}: done: {} of {} steps{}; nothing to do", run_.path().string(), checkpoint->manifest.step,
              setup_.total_steps, checkpoint->manifest.step < setup_.total_steps ? ", stopped early" : "");
    return;
  }
  start(checkpoint);
  training_loop();
  say_how_it_ended();
  export_model(model_, setup_, configuration_, runtime_, run_.model());
  run_.drop_previous_model();
  validation_.close();
  setup_.dataset.close(world_);
  log_.info("the model is in {}", run_.model().string());
  run_.release();
}

/// Loads or makes the weights, then takes the run folder: nothing is written before all of that has worked.
void Trainer::start(const std::optional<checkpoint::Checkpoint>& checkpoint) {
  if (checkpoint) {
    load(*checkpoint);
  } else {
    initialize_weights();
  }
  step_.state_changed();
  run_.claim();
  if (checkpoint && run_.resumes()) store_.set_aside_newer(checkpoint->manifest.step);
  comm::agree_on_root(world_, [this] {
    observe::cut_back(runtime_.files, run_.metrics(), model_.progress.step);
    return std::string();
  });
  if (config_.logging.tensorboard) {
    events_.emplace(runtime_.files, run_.events(), runtime_.session.host_name(), model_.progress.step + 1,
                    observe::wall_clock());
  }
  const auto& layout = setup_.layout;
  log_.info("{} {}: {} parameters, {} images, steps {} to {}", checkpoint ? "resuming" : "starting",
            run_.path().string(), model_.arena.parameter_count(), setup_.dataset.size(), model_.progress.step + 1,
            setup_.total_steps);
  log_.info("{} ranks × {} images × {} accumulation steps = global batch {}; {}, {} threads per rank",
            layout.data_parallel_size, layout.micro_size, layout.accumulation_steps(), layout.global_size,
            setup_.device.str(), at::get_num_threads());
}

void Trainer::load(const checkpoint::Checkpoint& checkpoint) {
  const checkpoint::Manifest& manifest = checkpoint.manifest;
  comm::agree(world_, [&] {
    if (manifest.dataset_hash == setup_.dataset.content_hash()) return;
    throw base::OutputError("{} was trained on other images than {} holds now", checkpoint.directory.string(),
                            setup_.dataset.path().string());
  });
  restore(model_, store_, checkpoint);
  const std::string& resume = config_.checkpoint.resume;
  if (resume != "auto" && resume != "never") model_.progress.resumed_from = full_name(resume);
  if (manifest.config_hash != config::identity_hash(configuration_.schema())) {
    log_.warn("{} is of another configuration: this run goes its own way from there", checkpoint.directory.string());
  }
  if (manifest.world_size != world_.size()) {
    log_.info("saved by {} ranks, going on with {}", manifest.world_size, world_.size());
  }
}

void Trainer::initialize_weights() {
  if (!config_.model_source.pretrained) {
    model_.initialize(static_cast<uint64_t>(config_.run.seed));
    return;
  }
  interop::ExpectedShapes expected;
  for (const nn::Parameter* parameter : model_.unet.parameters()) expected[parameter->name] = parameter->shape;
  comm::agree(world_,
              [&] { model_.initialize(interop::read_unet_weights(*config_.model_source.pretrained, expected)); });
}

void Trainer::training_loop() {
  const int64_t first_step = model_.progress.step;
  data::BatchLoader loader(setup_.dataset, setup_.order,
                           {.layout = setup_.layout,
                            .rank = world_.rank(),
                            .first_step = first_step,
                            .end_step = setup_.total_steps,
                            .prefetch = config_.data.prefetch});
  progress_.emplace(observe::progress_style(config_.logging.progress, log_.speaks(), observe::stderr_is_terminal()),
                    observe::ProgressBar::Options{.label = "train",
                                                  .first = first_step,
                                                  .total = setup_.total_steps,
                                                  .images_per_unit = setup_.layout.global_size});
  while (!finished()) {
    const StepOutcome outcome = step_.run(loader);
    const int64_t step = model_.progress.step;
    std::optional<ValidationOutcome> validated;
    if (validation_.due(step, step == setup_.total_steps)) {
      if (progress_) progress_->clear();
      validated = validation_.run(step_, model_.unet, step);
    }
    report(outcome, validated);
    const bool best = validated && validated->best;
    if (finished() || best || step % config_.checkpoint.every_steps == 0) save();
  }
  progress_.reset();
}

bool Trainer::finished() const { return model_.progress.step >= setup_.total_steps || validation_.stops(); }

void Trainer::say_how_it_ended() const {
  const ValidationRecord& record = validation_.record();
  if (model_.progress.step < setup_.total_steps) {
    log_.info("stopped early at step {} of {}: {} validations in a row without an improvement", model_.progress.step,
              setup_.total_steps, record.waited);
  }
  if (record.best_loss) {
    log_.info("the best validation loss, {:.6f}, is that of {}", *record.best_loss,
              store_.directory(record.best_step).string());
  }
}

void Trainer::report(const StepOutcome& outcome, const std::optional<ValidationOutcome>& validated) {
  const int64_t step = model_.progress.step;
  if (progress_) progress_->update(step, outcome.sums.loss / static_cast<double>(setup_.layout.global_size));
  if (step % config_.logging.every_steps != 0 && step != 1 && step != setup_.total_steps && !validated) return;

  observe::StepMetrics metrics = step_metrics(outcome, model_.progress, setup_.layout.global_size, world_);
  if (validated) metrics.validation_loss = validated->loss;
  comm::agree_on_root(world_, [&] {
    metrics_.append(metrics);
    if (events_) events_->write(step, observe::scalars_of(metrics));
    return std::string();
  });
}

void Trainer::save() {
  comm::agree_on_root(world_, [this] {
    metrics_.sync();
    if (events_) events_->sync();
    return std::string();
  });
  const Snapshot snapshot = take_snapshot(model_, setup_.replica, world_.rank() == 0);
  checkpoint::SaveRequest request;
  request.step = model_.progress.step;
  request.state = snapshot.state;
  write_image_state(ImageState::of(setup_.dataset.info()), request.state);
  validation_.write(request.state);
  request.config_hash = config::identity_hash(configuration_.schema());
  request.dataset_hash = setup_.dataset.content_hash();
  request.slices = snapshot.local_slices();
  request.retention = {.keep_latest = config_.checkpoint.keep_latest,
                       .keep_every = config_.checkpoint.keep_every,
                       .pinned = validation_.pinned()};
  const checkpoint::SaveReport saved = store_.save(std::move(request));
  if (progress_) progress_->clear();
  log_.info("checkpoint {} written: {:.1f} MB in {:.2f} s", saved.directory.string(),
            static_cast<double>(saved.bytes) / 1e6, saved.seconds);
}

}  // namespace

void train(const Configuration& configuration, const Runtime& runtime) { Trainer(configuration, runtime).run(); }

}  // namespace ddpm::train
