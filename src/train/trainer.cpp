#include "train/trainer.h"

#include <functional>
#include <initializer_list>
#include <optional>

#include <ATen/Parallel.h>

#include "base/counted.h"
#include "comm/collectives.h"
#include "data/stage.h"
#include "denoise/image_values.h"
#include "device/choose_device.h"
#include "run/resume.h"
#include "run/supervision.h"
#include "train/after_validation.h"
#include "train/base_weights.h"
#include "train/block_norm_monitor.h"
#include "train/card.h"
#include "train/checkpoint_export.h"
#include "train/config.h"
#include "train/denoising_step.h"
#include "train/driver.h"
#include "train/export.h"
#include "train/first_weights.h"
#include "train/logging.h"
#include "train/mean_record.h"
#include "train/mean_source.h"
#include "train/profiler.h"
#include "train/remembered_facts.h"
#include "train/sample_grids.h"
#include "train/task.h"
#include "train/training_set.h"
#include "train/validation.h"

namespace ddpm::train {
namespace {

/// Runs `work`; a copy of a set (data.stage) in which it finds something damaged is in doubt for the next start.
void read_copies(const Configuration& configuration, const run::Runtime& runtime, const std::function<void()>& work) {
  const auto& stage = configuration.values().data.stage;
  if (!stage) return work();
  data::doubt_damaged_copies(*stage, runtime.files, work);
}

class Trainer {
 public:
  Trainer(Configuration& configuration, const run::Runtime& runtime);
  void run() {
    driver_.guard([this] { read_copies(configuration_, runtime_, [this] { train(); }); });
  }

 private:
  void train();
  bool begin();
  void start(const std::optional<checkpoint::Checkpoint>& checkpoint);
  void load(const checkpoint::Checkpoint& checkpoint);
  void initialize_weights();
  void training_loop();
  void say_how_it_ended();
  void write_best_model();
  [[nodiscard]] CardFacts card_facts() const;

  const Configuration& configuration_;
  const run::Runtime& runtime_;
  comm::Communicator& world_;
  const base::Logger& log_;
  run::Supervision supervision_;
  Task task_;
  const Config& config_;
  Driver driver_;
  Validation validation_;
  UNetState model_;
  device::DataParallelDevice data_parallel_;
  DenoisingStep step_;
  // The other callbacks; the validation set is opened before the model is made.
  TrainingSet training_set_;
  RememberedFacts facts_;
  BaseWeights base_weights_;
  MeanRecord mean_record_;
  AfterValidation after_validation_;
  ProgressDisplay display_;
  Logging logging_;
  BlockNormMonitor norms_;
  SampleGrids samples_;
  Profiler profiler_;
};

Trainer::Trainer(Configuration& configuration, const run::Runtime& runtime)
    : configuration_(configuration),
      runtime_(runtime),
      world_(runtime.session.world()),
      log_(runtime.log),
      supervision_(configuration.values().fault, runtime),
      task_(Task::make(configuration, runtime)),
      config_(task_.config),
      driver_(config_, configuration.schema(), runtime, supervision_, task_.total_steps),
      validation_(task_, world_, supervision_, log_),
      model_(task_.fitted.unet, config_.ema.count(), task_.place.compute_dtype, task_.place.device,
             task_.place.sharding),
      data_parallel_(task_.place.device, runtime.session, config_.parallel.share_gpus),
      step_(task_, model_, world_, data_parallel_.communicator(), supervision_,
            engine::StepGraph(data_parallel_.make_graph(), world_, log_)),
      training_set_(task_, world_, log_),
      facts_(gather_facts(task_, runtime)),
      base_weights_(config_, world_),
      mean_record_(task_.mean, world_),
      after_validation_(config_.early_stopping, validation_.set(), runtime.files, driver_.store(), world_, log_),
      display_(config_.logging, task_.total_steps, config_.batch.global_size, model_.progress, log_),
      logging_(config_.logging, configuration.schema(), config_.batch.global_size, model_.progress, task_.place.device,
               driver_.folder(), runtime),
      norms_(config_.logging.norms, logging_, model_.arena, task_.place.mesh, world_),
      samples_(task_, model_.unet, step_, driver_.folder(), supervision_, runtime),
      profiler_(step_, driver_.folder(), supervision_, runtime) {
  warn_of_keys(config_, log_);
  logging_.count_epochs(task_.history);
  validation_.watch(step_, model_.unet);
  driver_.name_sets(task_.dataset.content_hash(), validation_.set());
  const auto add = [this](std::initializer_list<Callback*> callbacks) {
    for (Callback* callback : callbacks) driver_.add(*callback);
  };
  add({&profiler_, &training_set_, &facts_, &base_weights_, &mean_record_, &validation_});
  for (Callback* callback : after_validation_.callbacks()) driver_.add(*callback);
  add({&samples_, &norms_, &display_, &logging_});
}

void Trainer::train() {
  run::RunFolder& folder = driver_.folder();
  if (!begin()) return;
  training_loop();
  driver_.stop_if_asked();
  supervision_.enter(engine::RunPhase::finish, model_.progress.step);
  say_how_it_ended();
  folder.require_owned();
  write_best_model();  // before the model itself, which says that the run is done
  export_model(model_, base_weights_.base(), task_, configuration_, card_facts(), runtime_, folder.model());
  folder.drop_previous_model();
  driver_.close();
  log_.info("the model is in {}", folder.model().string());
  driver_.release();
}

/// Goes on from the newest checkpoint, or begins; false where the run is done. What the checkpoint says of all its
/// slices takes more memory the more ranks wrote it, and is not kept while the run trains.
bool Trainer::begin() {
  const auto checkpoint = driver_.find();
  if (driver_.done(checkpoint)) {
    driver_.leave_done(checkpoint->manifest.step);
    return false;
  }
  start(checkpoint);
  return true;
}

/// Loads or makes the weights, then takes the run folder: nothing is written before all of that has worked.
void Trainer::start(const std::optional<checkpoint::Checkpoint>& checkpoint) {
  const denoise::ImageValues stored = denoise::stored_values(task_.dataset, world_);
  facts_.set_statistics(stored, task_.dataset.info());
  warn_of_set(config_, task_.dataset, denoise::model_values(task_.dataset, stored), log_);
  base_weights_.read(model_);
  if (checkpoint) {
    load(*checkpoint);
  } else {
    initialize_weights();
  }
  if (const denoise::AdapterBase* base = base_weights_.base())
    log_.info("adapters beside the weights of {}", base->path);
  step_.state_changed();
  driver_.start(model_, task_.place, checkpoint, finished_models(config_));
  if (task_.mean) keep_mean_model(*task_.mean, driver_.folder().path(), runtime_);
  logging_.begin();
  driver_.say_start(checkpoint, fmt::format("{}, {}", base::counted(model_.trained_count(), "parameter"),
                                            base::counted(task_.dataset.size(), "image")));
  const layout::Parallelism& ranks = task_.place.parallelism;
  log_.info("{} = global batch {}{}; {}, {} per rank", ranks.batch_text(world_.size(), "image"), ranks.global_size,
            ranks.islands_text(world_.size()), task_.place.device.str(),
            base::counted(at::get_num_threads(), "thread"));
}

void Trainer::load(const checkpoint::Checkpoint& checkpoint) {
  comm::agree(world_, [&] { expect_images_of(checkpoint, config_, task_.dataset, task_.image_record()); });
  driver_.load(checkpoint, model_);
}

void Trainer::initialize_weights() {
  const auto seed = static_cast<uint64_t>(config_.run.seed);
  const bool adapters = config_.model.lora.rank > 0;
  const auto pretrained = open_first_weights(config_, model_.unet, task_.image_record(), runtime_);
  if (!pretrained) return model_.initialize(seed);
  if (adapters) pretrained->expect_trained_beside(*base_weights_.base());
  if (adapters || pretrained->leaves_some()) model_.initialize(seed);
  pretrained->for_each([this](const std::string& name, const at::Tensor& values) { model_.assign(name, values); });
  model_.start_from_master();
  log_.info("{} of {}", adapters ? "adapters" : "weights", pretrained->description());
}

void Trainer::training_loop() {
  data::BatchLoader loader(task_.dataset, task_.order, task_.loading(model_.progress.step, task_.total_steps));
  display_.begin();
  profiler_.begin(model_.progress.step, task_.total_steps);
  while (!driver_.ended() && !driver_.stopping()) {
    const bool begun = step_.begin(loader);
    while (const auto result = step_.finished(!begun || driver_.must_wait_for(step_.last_begun()))) {
      driver_.after(*result, step_.settled());
      profiler_.after(model_.progress.step);
    }
  }
  if (driver_.stopping()) driver_.save();  // at once: the loader's end may have to wait for a slow read
  driver_.drain();
  display_.close();
}

void Trainer::say_how_it_ended() {
  const ValidationRecord& record = after_validation_.record();
  if (model_.progress.step < task_.total_steps) {
    log_.info("stopped early at step {} of {}: {} in a row without an improvement", model_.progress.step,
              task_.total_steps, base::counted(record.waited, "validation"));
  } else if (model_.progress.step > task_.total_steps) {
    log_.warn(
        "resumed at step {}, of {} wanted: no step follows, and the model is that of step {}; checkpoint.resume can "
        "name an earlier checkpoint",
        model_.progress.step, task_.total_steps, model_.progress.step);
  }
  if (record.best_loss) {
    log_.info("the best validation loss, {:.6f}, is that of {}", *record.best_loss,
              driver_.store().directory(record.best_step).string());
  }
}

/// What the model's card tells, as the checkpoint of this step remembers it.
CardFacts Trainer::card_facts() const {
  return {.history = task_.history,
          .progress = model_.progress,
          .validated = after_validation_.record(),
          .training = facts_.facts(),
          .class_names = task_.image_record().class_names};
}

/// RUN/model-best, of the checkpoint with the best validation loss. One from before the losses began anew is removed.
void Trainer::write_best_model() {
  const base::Path best = driver_.folder().best_model();
  const ValidationRecord& record = after_validation_.record();
  if (!record.best_loss) return driver_.folder().drop_best_model();
  try {
    export_best(driver_.store().directory(record.best_step), base_weights_.base(), best, runtime_);
    log_.info("the best model is in {}", best.string());
  } catch (const comm::AgreedError& error) {  // thrown on all ranks: what was trained is not lost with it
    log_.warn("there is no {}: {}", best.string(), error.what());
  }
}

}  // namespace

void train(Configuration& configuration, const run::Runtime& runtime) {
  std::optional<Trainer> trainer;
  read_copies(configuration, runtime, [&] { trainer.emplace(configuration, runtime); });
  trainer->run();
}

}  // namespace ddpm::train
