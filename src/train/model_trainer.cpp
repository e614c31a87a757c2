#include "train/model_trainer.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/counted.h"
#include "base/random.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "comm/launch.h"
#include "device/ranges.h"
#include "optim/clip.h"
#include "train/finish_step.h"
#include "train/recomputed_unit.h"

namespace ddpm::train {
namespace {

bool recomputes(const TrainerConfig& config) {
  return config.parallel.activation_checkpointing != parallel::ActivationCheckpointing::none;
}

run::Placement place(const TrainerConfiguration& configuration, const run::Runtime& runtime, const OwnModel& model) {
  comm::agree(runtime.session.world(), [&] {
    comm::check_launch(runtime.session.size(), comm::process_environment());
    const layout::Parallelism parallelism = run::parallelism_of(configuration.values());
    const std::pair<const char*, int64_t> cuts[] = {{"parallel.spatial_size: tiles", parallelism.tiles},
                                                    {"parallel.tensor_size", parallelism.tensor_size},
                                                    {"parallel.pipeline_size", parallelism.pipeline_size}};
    for (const auto& [what, parts] : cuts) {
      if (parts > 1) {
        throw base::ConfigError("{} = {}: only `ddpm train`'s UNet can be cut; wanted: 1", what, parts);
      }
    }
    if (!configuration.values().parallel.stage_units.empty()) {
      throw base::ConfigError("parallel.stage_units is set: only `ddpm train`'s UNet can be cut; wanted: no such key");
    }
    if (recomputes(configuration.values()) && model.units.empty()) {
      throw base::ConfigError(
          "parallel.activation_checkpointing is set, but the model names no units, of which only the inputs would be "
          "kept; wanted: \"none\", or units");
    }
  });
  run::expect_same_program(configuration.schema(), runtime.session.world());
  return run::Placement::make(configuration.values(), runtime.session, runtime.log);
}

bool is_trained(const OwnTensor& tensor) { return tensor.role == base::ParameterRole::trained; }

void check_tensors(const OwnModel& model) {
  if (std::ranges::none_of(model.tensors, is_trained)) {
    throw base::ConfigError("the model has no parameters to train");
  }
  std::set<std::string> names;
  std::set<const void*> tensors;
  for (const auto& [name, value, role] : model.tensors) {
    if (!value.defined()) throw base::ConfigError("{}: the tensor is undefined", name);
    if (!names.insert(name).second) throw base::ConfigError("two tensors of the model have the name {}", name);
    if (!tensors.insert(value.unsafeGetTensorImpl()).second) {
      throw base::ConfigError("{} is a tensor that another name stands for already: list it once", name);
    }
  }
  for (const auto& [name, value, role] : model.tensors) {
    if (role == base::ParameterRole::constant) {
      if (value.is_complex()) throw base::ConfigError("{} is complex: checkpoints hold real numbers", name);
    } else if (!value.is_floating_point() || value.scalar_type() == at::kDouble) {
      throw base::ConfigError("{} is of type {}; float32 (or 16 bits, kept in float32) is what can be {}", name,
                              c10::toString(value.scalar_type()),
                              role == base::ParameterRole::trained ? "trained" : "frozen");
    }
  }
}

/// Index of the unit that a parameter belongs to.
int unit_of(const std::string& parameter, const std::vector<std::string>& units) {
  if (units.empty()) return 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (parameter == units[i] || parameter.starts_with(units[i] + ".")) return static_cast<int>(i);
  }
  throw base::ConfigError("parameter {} belongs to none of the units {}", parameter, fmt::join(units, ", "));
}

/// What has to be the same on every rank.
std::string description(const std::vector<OwnTensor>& tensors, const OwnModel& model) {
  std::string text = fmt::format("{}\n", fmt::join(model.units, " "));
  for (const auto& [name, value, role] : tensors) {
    text += fmt::format("{} {} [{}] {}\n", name, c10::toString(value.scalar_type()), fmt::join(value.sizes(), ", "),
                        static_cast<int>(role));
  }
  return text;
}

/// What is trained, unit by unit, and then what is not.
std::vector<OwnTensor> in_unit_order(const OwnModel& model, comm::Communicator& world) {
  std::vector<OwnTensor> sorted = model.tensors;
  comm::agree(world, [&] {
    check_tensors(model);
    const auto fixed = std::stable_partition(sorted.begin(), sorted.end(), is_trained);
    std::ranges::stable_sort(sorted.begin(), fixed, {},
                             [&](const OwnTensor& t) { return unit_of(t.name, model.units); });
  });
  comm::expect_same(world, "model", base::sha256_hex(description(sorted, model)));
  return sorted;
}

/// Rank 0's values of `tensor`, in its own type on the host.
at::Tensor broadcast_values(const at::Tensor& tensor, comm::Communicator& world) {
  at::Tensor values = at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type())).copy_(tensor);
  const auto bytes = static_cast<int64_t>(values.nbytes());
  if (bytes > 0) world.broadcast({values.mutable_data_ptr(), bytes, base::DType::u8}, 0).wait();
  return values;
}

/// The state with rank 0's initial values. The model's tensors keep their identity, as the model holds them in more
/// places than one, and get their memory from the state.
engine::TrainingState bind_state(std::vector<OwnTensor>& tensors, const OwnModel& model, std::size_t averages,
                                 const run::Placement& place, comm::Communicator& world) {
  const at::NoGradGuard no_grad;
  const std::vector<OwnTensor> own = tensors;
  std::vector<parallel::ArenaParameter> places;
  places.reserve(tensors.size());
  for (auto& [name, value, role] : tensors) {
    const int unit = role == base::ParameterRole::trained ? unit_of(name, model.units) : -1;
    places.push_back({name, value.sizes().vec(), &value, unit, role});
    if (role != base::ParameterRole::constant) continue;
    value.copy_(broadcast_values(value, world));
    if (value.device() != place.device) value.set_data(value.to(place.device));
  }
  engine::TrainingState state(places, averages, place.compute_dtype, place.device, place.sharding);
  auto entry = state.arena.entries().begin();
  auto fixed = state.fixed.begin();
  for (std::size_t i = 0; i < own.size(); ++i) {
    const bool trained = is_trained(own[i]);
    at::Tensor tensor = own[i].value;
    if (trained) {
      state.arena.assign(state.arena.master(), *entry++, broadcast_values(tensor, world));
    } else if ((fixed++)->role == base::ParameterRole::frozen) {
      std::prev(fixed)->value.copy_(broadcast_values(tensor, world));
    } else {
      continue;
    }
    tensor.mutable_grad().reset();
    tensor.set_data(tensors[i].value.detach());
    tensors[i].value = tensor.set_requires_grad(trained);
  }
  state.start_from_master();
  return state;
}

void seed_libtorch(int64_t seed, const MicroBatchPosition& position) {
  const base::RandomSequence random(static_cast<uint64_t>(seed), base::Stream::dropout,
                                    static_cast<uint64_t>(position.step), static_cast<uint64_t>(position.first));
  at::manual_seed(uint64_t{random.bits(0)} << 32U | random.bits(1));
}

}  // namespace

ModelTrainer::ModelTrainer(const TrainerConfiguration& configuration, const run::Runtime& runtime,
                           const OwnModel& model)
    : config_(configuration.values()),
      runtime_(runtime),
      world_(runtime.session.world()),
      supervision_(config_.fault, runtime),
      place_(place(configuration, runtime, model)),
      units_(model.units),
      tensors_(in_unit_order(model, world_)),
      state_(bind_state(tensors_, model, config_.ema.count(), place_, world_)),
      data_parallel_(place_.device, runtime.session, config_.parallel.share_gpus),
      step_(run::rules_of(config_, place_, config_.steps), state_, world_, data_parallel_.communicator(),
            {.losses = 1, .votes = run::Supervision::kVotes}),
      driver_(config_, configuration.schema(), runtime_, supervision_, config_.steps),
      display_(config_.logging, config_.steps, config_.batch.global_size, state_.progress, runtime_.log),
      logging_(config_.logging, configuration.schema(), config_.batch.global_size, state_.progress, place_.device,
               driver_.folder(), runtime_),
      own_metrics_(logging_, world_),
      norms_(config_.logging.norms, logging_, state_.arena, place_.mesh, world_) {
  step_.on_phase([this](engine::RunPhase phase) { supervision_.enter(phase, state_.progress.step + 1); });
}

bool ModelTrainer::resume() {
  DDPM_CHECK(!driver_.running(), "resume() was called twice");
  for (Callback* callback : std::initializer_list<Callback*>{&display_, &own_metrics_, &norms_, &logging_})
    driver_.add(*callback);
  const auto checkpoint = driver_.find();
  if (checkpoint) driver_.load(*checkpoint, state_);
  step_.state_changed();
  if (done()) {
    driver_.leave_done(state_.progress.step);
    return true;
  }
  driver_.start(state_, place_, checkpoint, /*finished_models=*/0);
  logging_.begin();
  driver_.say_start(checkpoint, base::counted(state_.arena.parameter_count(), "parameter"));
  const layout::Parallelism& ranks = place_.parallelism;
  runtime_.log.info("{} = global batch {}{}; {}", ranks.batch_text(world_.size(), "sample"), ranks.global_size,
                    ranks.islands_text(world_.size()), place_.device.str());
  display_.begin();
  return checkpoint.has_value();
}

StepResult ModelTrainer::step(const Loss& loss) {
  DDPM_CHECK(driver_.running() && !done(), "a step before resume(), or after the last of {}", config_.steps);
  StepResult result;
  driver_.guard([&] { result = one_step(loss); });
  return result;
}

StepResult ModelTrainer::one_step(const Loss& loss) {
  std::vector<double> losses;
  const device::ScopedRange range(fmt::format("step {}", step_.next_step()));
  clock_.begin();
  step_.begin();
  const bool complete = step_.accumulate(
      [&](int64_t micro, const at::Tensor& factor) { losses.push_back(forward_backward(loss, micro, factor)); },
      [this] { return supervision_.interrupted(); });
  if (!complete) driver_.stop_if_asked();  // which throws: the step is discarded
  step_.add_sums(supervision_.votes());
  step_.update(at::full({1}, optim::tree_sum(losses), at::TensorOptions(at::kDouble).device(place_.device)));
  step_.submit();
  clock_.launched(std::exchange(data_wait_, 0.0), step_.take_exposed_seconds());
  double loss_sum = 0.0;
  StepResult result = finish_step(step_, state_, supervision_, clock_, world_, std::span(&loss_sum, 1));
  result.loss = loss_sum / static_cast<double>(place_.layout.global_size);
  driver_.after(result, /*settled=*/true);
  state_.before_change();  // which the caller may do, too
  own_metrics_.clear();
  driver_.stop_if_asked();
  if (done()) {
    driver_.drain();
    driver_.close();
    driver_.release();
  }
  return result;
}

double ModelTrainer::forward_backward(const Loss& loss, int64_t micro, const at::Tensor& loss_factor) {
  const layout::Range positions = place_.layout.positions(place_.data_parallel_rank(), micro);
  const MicroBatchPosition position{state_.progress.step, positions.begin, positions.size()};
  seed_libtorch(config_.run.seed, position);
  if (units_.empty()) step_.weights().gather_all();
  supervision_.enter(engine::RunPhase::model, position.step + 1);
  const at::Tensor value = loss(position);
  DDPM_CHECK(value.numel() == 1 && value.requires_grad(), "the loss is a tensor of {} elements{}; wanted: a sum",
             value.numel(), value.requires_grad() ? "" : " without a gradient");
  (value.to(at::kFloat) * loss_factor).backward();
  return value.item<double>();
}

void ModelTrainer::save() {
  DDPM_CHECK(driver_.running(), "save() before resume(), or after the last step");
  driver_.guard([this] { driver_.save(); });
}

at::Tensor ModelTrainer::run_unit(const std::string& name, const std::function<at::Tensor()>& forward) {
  return run_unit(name, [&forward] { return std::vector<at::Tensor>{forward()}; }).front();
}

std::vector<at::Tensor> ModelTrainer::run_unit(const std::string& name,
                                               const std::function<std::vector<at::Tensor>()>& forward) {
  if (recomputes(config_)) {
    throw base::ConfigError(
        "unit {}: parallel.activation_checkpointing runs it again in backward, but run_unit() was not told its inputs; "
        "wanted: run_unit(name, inputs, forward), or \"none\"",
        name);
  }
  return step_.weights().run(unit_number(name), forward);
}

std::vector<at::Tensor> ModelTrainer::run_unit(const std::string& name, const std::vector<at::Tensor>& inputs,
                                               const UnitForward& forward) {
  return step_.weights().run(unit_number(name), [&] {
    return recomputes(config_) ? recompute_unit(inputs, forward, place_.device) : forward(inputs);
  });
}

at::Tensor ModelTrainer::run_unit(const std::string& name, const at::Tensor& input,
                                  const std::function<at::Tensor(const at::Tensor&)>& forward) {
  return run_unit(name, std::vector<at::Tensor>{input},
                  [forward](const std::vector<at::Tensor>& inputs) {
                    return std::vector<at::Tensor>{forward(inputs.front())};
                  })
      .front();
}

std::size_t ModelTrainer::unit_number(const std::string& name) const {
  const auto found = std::ranges::find(units_, name);
  DDPM_CHECK(found != units_.end(), "{} is none of the units {}", name, fmt::join(units_, ", "));
  return static_cast<std::size_t>(found - units_.begin());
}

void ModelTrainer::with_weights(const std::function<void()>& work) {
  const at::NoGradGuard no_grad;
  step_.weights().gather_all();
  work();
  step_.weights().release_all();
}

std::map<std::string, at::Tensor> ModelTrainer::weights(const run::WeightChoice& choice) {
  const at::NoGradGuard no_grad;
  if (choice.relative_length) {
    throw base::ConfigError(
        "weights of relative length {}: averages of any length are made of checkpoints, after training; wanted: raw "
        "weights, or an average that is kept",
        *choice.relative_length);
  }
  DDPM_CHECK(!choice.ema || *choice.ema < state_.ema.size(), "average {} of {}", *choice.ema, state_.ema.size());
  const at::Tensor whole = step_.gather(choice.ema ? state_.ema[*choice.ema] : state_.arena.master());
  std::map<std::string, at::Tensor> named;
  if (world_.rank() != 0) return named;
  for (const auto& entry : state_.arena.entries()) {
    named[entry.name] =
        parallel::ParameterArena::view(whole.narrow(0, entry.range.begin, entry.range.size()), entry).contiguous();
  }
  for (const engine::FixedTensor& tensor : state_.fixed) named[tensor.name] = tensor.value.to(at::kCPU, at::kFloat);
  return named;
}

}  // namespace ddpm::train
