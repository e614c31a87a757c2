#include "diffusion/scheduler_json.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/named.h"
#include "config/json_value.h"
#include "config/resolve.h"
#include "diffusion/validate.h"

namespace ddpm::diffusion {
namespace {

/// How dpmsolver++ is integrated. diffusers takes deis for dpmsolver++.
enum class AlgorithmType : uint8_t { dpmsolver_pp, deis };
constexpr auto names_of(AlgorithmType /*type*/) { return std::to_array<std::string_view>({"dpmsolver++", "deis"}); }

bool solves(SamplerType sampler) { return sampler != SamplerType::ddpm && sampler != SamplerType::ddim; }
bool is_dpmsolver(SamplerType sampler) {
  return sampler == SamplerType::dpmsolver_pp || sampler == SamplerType::dpmsolver_pp_2s;
}

/// What a network of flow predicts, in the files of schedulers that know others.
constexpr std::string_view kFlowPrediction = "flow_prediction";

/// What lambda_min_clipped is by default, as Python writes it: JSON has no such number.
constexpr std::string_view kNoBound = "-Infinity";

/// Classes of diffusers, without "Scheduler", that solve the process of DDPMScheduler and read its keys.
constexpr auto kDdpmClasses = std::to_array<std::string_view>({"DDPM",
                                                               "DDPMParallel",
                                                               "DDIM",
                                                               "DDIMParallel",
                                                               "PNDM",
                                                               "DPMSolverMultistep",
                                                               "DPMSolverSinglestep",
                                                               "DPMSolverSDE",
                                                               "DEISMultistep",
                                                               "UniPCMultistep",
                                                               "SASolver",
                                                               "EulerDiscrete",
                                                               "EulerAncestralDiscrete",
                                                               "HeunDiscrete",
                                                               "KDPM2Discrete",
                                                               "KDPM2AncestralDiscrete",
                                                               "LMSDiscrete",
                                                               "LCM",
                                                               "TCD",
                                                               "RePaint"});
constexpr auto kEdmClasses = std::to_array<std::string_view>({"EDMEuler", "EDMDPMSolverMultistep"});
constexpr auto kFlowClasses =
    std::to_array<std::string_view>({"FlowMatchEulerDiscrete", "FlowMatchHeunDiscrete", "FlowMatchLCM"});

/// Schedulers of the process of DDPMScheduler that go through noise levels σ without bound, and scale what a network is
/// shown.
constexpr auto kScalingClasses =
    std::to_array<std::string_view>({"DPMSolverSDE", "EulerDiscrete", "EulerAncestralDiscrete", "HeunDiscrete",
                                     "KDPM2Discrete", "KDPM2AncestralDiscrete", "LMSDiscrete"});

/// Schedulers whose steps diffusers' DDPMPipeline cannot take, since they have no argument for its generator.
constexpr auto kClassesWithoutGenerator = std::to_array<std::string_view>(
    {"PNDM", "DEISMultistep", "UniPCMultistep", "HeunDiscrete", "KDPM2Discrete", "LMSDiscrete"});

/// The name of a class of diffusers as the lists above have it; "" for another name.
std::string_view listed_name(std::string_view name) {
  constexpr std::string_view kFlax = "Flax";  // the same schedulers for JAX
  constexpr std::string_view kEnd = "Scheduler";
  if (name.starts_with(kFlax)) name.remove_prefix(kFlax.size());
  if (!name.ends_with(kEnd)) return {};
  name.remove_suffix(kEnd.size());
  return name;
}

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// The formulation of a class's name, or none where it may be another process.
std::optional<Formulation> formulation_of_class(std::string_view name) {
  if (name == scheduler_class(Formulation::regression)) return Formulation::regression;
  name = listed_name(name);
  if (is_in(kDdpmClasses, name)) return Formulation::ddpm;
  if (is_in(kEdmClasses, name)) return Formulation::edm;
  return is_in(kFlowClasses, name) ? std::optional(Formulation::flow) : std::nullopt;
}

/// A key that only one value of is supported, and where it counts.
struct OnlyValue {
  std::string_view key;
  base::Json value;
  bool (*counts)(SamplerType sampler, Formulation formulation);
};

const std::vector<OnlyValue>& only_values() {
  using Type = SamplerType;
  using Form = Formulation;
  const auto any = [](Type /*sampler*/, Form /*formulation*/) { return true; };
  const auto solver = [](Type sampler, Form /*formulation*/) { return solves(sampler); };
  const auto dpmsolver = [](Type sampler, Form /*formulation*/) { return is_dpmsolver(sampler); };
  const auto euler = [](Type sampler, Form /*formulation*/) { return sampler == SamplerType::euler; };
  // FlowMatchEulerDiscreteScheduler alone has Karras' levels of flow, and what dpmsolver++ of diffusers ends with for
  // sigma_min is a level of ddpm's.
  const auto flow_by_others = [](Type sampler, Form f) {
    return f == Form::flow && (sampler == SamplerType::heun || is_dpmsolver(sampler));
  };
  const auto flow_by_dpmsolver = [](Type sampler, Form f) { return f == Form::flow && is_dpmsolver(sampler); };
  const auto edm_by_heun = [](Type sampler, Form f) { return f == Form::edm && sampler == SamplerType::heun; };
  static const std::vector<OnlyValue> kValues = {
      {"use_exponential_sigmas", false, solver},
      {"use_beta_sigmas", false, solver},
      {"use_lu_lambdas", false, dpmsolver},
      {"use_karras_sigmas", false, flow_by_others},
      {"final_sigmas_type", "zero", flow_by_dpmsolver},
      {"final_sigmas_type", "zero", edm_by_heun},
      {"use_dynamic_shifting", false, any},
      {"invert_sigmas", false, any},
      {"stochastic_sampling", false, any},
      {"sigma_schedule", "karras", any},
      {"timestep_type", "discrete", any},
      {"interpolation_type", "linear", euler},
  };
  return kValues;
}

std::string text_at(const base::Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_true(const base::Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

void expect_supported(const base::Json& json, SamplerType sampler, Formulation formulation, const std::string& origin) {
  for (const auto& [key, wanted, counts] : only_values()) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null() || *found == wanted || !counts(sampler, formulation)) continue;
    throw base::OutputError("{}: {} = {} is not supported with {} of {}; wanted: {}", origin, key, found->dump(),
                            base::name_of(sampler), base::name_of(formulation), wanted.dump());
  }
  // diffusers takes "epsilon" where nothing stands.
  if (is_true(json, "use_flow_sigmas") && text_at(json, "prediction_type") != kFlowPrediction) {
    throw base::OutputError("{}: use_flow_sigmas = true with prediction_type = {} is not supported; wanted: \"{}\"",
                            origin, json.value("prediction_type", base::Json("epsilon")).dump(), kFlowPrediction);
  }
  const auto terminal = json.find("shift_terminal");
  if (terminal != json.end() && !terminal->is_null()) {
    throw base::OutputError("{}: shift_terminal = {} is not supported; wanted: null", origin, terminal->dump());
  }
}

/// The name of the shift of flow in files of diffusers' classes for flow.
constexpr const char* kShift = "shift";

/// The names of the shift of flow in files of diffusers. Where a file has both, that of the sampler's own class counts,
/// which comes last.
std::array<const char*, 2> shift_keys(SamplerType sampler) {
  constexpr const char* kOfDpmSolvers = "flow_shift";
  if (is_dpmsolver(sampler)) return {kShift, kOfDpmSolvers};
  return {kOfDpmSolvers, kShift};
}

/// The keys of the process that a model of the formulation has learned, which are read and written. `shifts` are the
/// names of the shift of flow.
void describe_process(config::Section& section, SchedulerConfig& c, std::span<const char* const> shifts) {
  switch (c.formulation) {
    case Formulation::ddpm:
      return describe_ddpm(section, c);
    case Formulation::edm:
      section.key("num_train_timesteps", c.num_train_timesteps, "", {.min = 1, .max = kMostTimesteps})
          .key("prediction_type", c.prediction_type, "");
      return describe_edm(section, c);
    case Formulation::flow:
      section.key("num_train_timesteps", c.num_train_timesteps, "", {.min = 1, .max = kMostTimesteps});
      for (const char* key : shifts) section.key(key, c.shift, "", {.min = 0.0, .above_min = true});
      return;
    case Formulation::regression:
      return;
  }
}

/// The keys that `sampler` reads of a file: types, ranges and choices are those of the [diffusion] section.
config::Schema file_schema(SchedulerConfig& c, AlgorithmType& algorithm, SamplerType sampler) {
  config::Schema schema;
  config::Section section = schema.section("scheduler", "", config::Identity::fixed);
  describe_process(section, c, shift_keys(sampler));
  if (c.formulation == Formulation::regression) return schema;
  SolverConfig& solver = c.solver;
  if (is_dpmsolver(sampler) && c.formulation != Formulation::ddpm) describe_thresholding(section, c);
  if (sampler == SamplerType::ddim) section.key("set_alpha_to_one", solver.set_alpha_to_one, "");
  if (!solves(sampler)) return schema;
  section.key("use_karras_sigmas", solver.use_karras_sigmas, "");
  if (c.formulation == Formulation::ddpm) {
    section.key("sigma_min", solver.karras_sigma_min, "", {.min = 0.0, .above_min = true})
        .key("sigma_max", solver.karras_sigma_max, "", {.min = 0.0, .above_min = true});
  }
  if (sampler != SamplerType::heun) section.key("final_sigmas_type", solver.final_sigmas_type, "");
  if (!is_dpmsolver(sampler)) return schema;
  section.key("algorithm_type", algorithm, "")
      .key("solver_order", solver.solver_order, "", {.min = 1, .max = 2})
      .key("solver_type", solver.solver_type, "")
      .key("lower_order_final", solver.lower_order_final, "")
      .key("euler_at_final", solver.euler_at_final, "")
      .key("lambda_min_clipped", solver.lambda_min_clipped, "");
  return schema;
}

/// The keys of `c` that diffusers' class of its formulation has.
config::Schema written_schema(SchedulerConfig& c) {
  config::Schema schema;
  config::Section section = schema.section("scheduler", "", config::Identity::fixed);
  describe_process(section, c, std::array{kShift});
  if (c.formulation == Formulation::edm) section.key("final_sigmas_type", c.solver.final_sigmas_type, "");
  return schema;
}

}  // namespace

/// What DDPMScheduler, DDIMScheduler, DPMSolverMultistepScheduler, DPMSolverSinglestepScheduler, EulerDiscreteScheduler
/// and HeunDiscreteScheduler do not agree on.
SchedulerConfig scheduler_defaults(SamplerType sampler) {
  SchedulerConfig c;
  if (solves(sampler)) c.timestep_spacing = TimestepSpacing::linspace;
  c.solver.lower_order_final = sampler != SamplerType::dpmsolver_pp_2s;
  if (sampler == SamplerType::heun) {
    c.beta_start = 0.00085;
    c.beta_end = 0.012;
    c.clip_sample = false;
  }
  return c;
}

Formulation formulation_of(const base::Json& json, const std::string& origin) {
  std::optional<Formulation> formulation = Formulation::ddpm;
  const auto name = json.find("_class_name");
  if (name != json.end() && !name->is_null()) formulation = formulation_of_class(text_at(json, "_class_name"));
  if (!formulation) {
    throw base::OutputError(
        "{}: _class_name = {} is not known as a scheduler of ddpm, edm or flow; wanted: one that is, such as {}, {} or "
        "{}, or no scheduler/ in the folder, which then is taken for ddpm",
        origin, base::excerpt(*name), scheduler_class(Formulation::ddpm), scheduler_class(Formulation::edm),
        scheduler_class(Formulation::flow));
  }
  const bool flows = is_true(json, "use_flow_sigmas") || text_at(json, "prediction_type") == kFlowPrediction;
  return *formulation == Formulation::ddpm && flows ? Formulation::flow : *formulation;
}

bool scales_input(std::string_view scheduler_class) {
  const std::string_view name = listed_name(scheduler_class);
  return is_in(kScalingClasses, name) || is_in(kEdmClasses, name);
}

bool takes_generator(std::string_view scheduler_class) {
  return !is_in(kClassesWithoutGenerator, listed_name(scheduler_class));
}

SchedulerConfig read_scheduler(const base::Json& json, SamplerType sampler, const std::string& origin) {
  if (!json.is_object()) throw base::OutputError("{}: a JSON object is wanted", origin);
  SchedulerConfig c = scheduler_defaults(sampler);
  c.formulation = formulation_of(json, origin);
  expect_supported(json, sampler, c.formulation, origin);
  AlgorithmType algorithm = AlgorithmType::dpmsolver_pp;
  const config::Schema schema = file_schema(c, algorithm, sampler);
  try {
    for (const config::Entry& entry : schema.entries()) {
      const auto found = json.find(entry.key);
      if (entry.key == "lambda_min_clipped" && found != json.end() && *found == kNoBound) continue;
      if (found == json.end()) continue;
      const config::Value value = config::from_json(*found, entry);
      if (!std::holds_alternative<std::nullptr_t>(value.data)) config::assign(entry, value, origin);
    }
    validate(c, origin + ": ");
  } catch (const base::ConfigError& error) {
    // The fault lies in a model's file, not in what the user configured.
    throw base::OutputError("{}", error.what());
  }
  return c;
}

base::OrderedJson write_scheduler(const SchedulerConfig& c) {
  SchedulerConfig copy = c;
  if (c.formulation == Formulation::ddpm) copy.clip_sample = c.clips();
  const config::Schema schema = written_schema(copy);
  std::map<std::string, base::OrderedJson> sorted;
  for (const config::Entry& entry : schema.entries()) sorted[entry.key] = config::to_json(config::current(entry));
  if (c.formulation == Formulation::ddpm && c.trained_betas.empty()) sorted["trained_betas"] = nullptr;
  if (c.formulation == Formulation::edm) sorted["sigma_schedule"] = "karras";

  base::OrderedJson json;
  json["_class_name"] = scheduler_class(c.formulation);
  for (auto& [key, value] : sorted) json[key] = std::move(value);
  return json;
}

}  // namespace ddpm::diffusion
