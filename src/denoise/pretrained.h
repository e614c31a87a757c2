// The model that training starts from, as model.pretrained and model.pretrained_weights name it: a model folder of
// diffusers', a run, or one of its checkpoints.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/file_system.h"
#include "denoise/adapter_base.h"
#include "denoise/image_record.h"
#include "denoise/load_model.h"
#include "denoise/model_source.h"
#include "denoise/shared_weights.h"
#include "interop/diffusers_reader.h"
#include "nn/unet2d.h"
#include "run/find_run.h"
#include "run/runtime.h"
#include "run/weight_choice.h"

namespace ddpm::denoise {

/// Where `path` is a run or a checkpoint of one; none for a model folder and for anything else. Not collective.
std::optional<run::FoundRun> pretrained_run(const base::FileSystem& files, const base::Path& path);

/// Whether a run, checkpoint or model folder draws what a regression leaves (mean_model.h).
bool has_mean_model(const base::FileSystem& files, const base::Path& path);

/// The folder with the weights that `source` means, which is not a run: its `pretrained`, or the averages unet_ema/ in
/// it. Throws base::ConfigError where a folder holds both and the source does not say which, and base::OutputError
/// where it does not hold what the source says.
base::Path pretrained_folder(const ModelSource& source);

/// What a model's configuration says, and that of its scheduler where it has one.
struct PretrainedConfig {
  nn::UNet2DConfig unet;
  std::optional<diffusion::SchedulerConfig> scheduler;
};
/// Throws base::OutputError (exit code 4) for what is wrong with the folder. `read_run` reads the configuration of a
/// run.
PretrainedConfig read_pretrained_config(const base::FileSystem& files, const ModelSource& source,
                                        const ReadRunModel& read_run);

/// Warns of keys of [diffusion] that are set to other values than those that `source.pretrained` was trained with, and
/// says what a folder without a scheduler is taken for. Collective.
void warn_of_changed_diffusion(const ModelSource& source, const diffusion::SchedulerConfig& scheduler,
                               const ReadRunModel& read_run, const run::Runtime& runtime);

/// What the adapters of `source.lora_adapters` are, whose layers are those of `model`. Targets that PEFT's folder names
/// and the model lacks are left out, as PEFT passes over them. Throws base::OutputError (exit code 4) for what is wrong
/// with the adapters, and where no target means a layer.
nn::LoraConfig read_adapter_config(const base::FileSystem& files, const ModelSource& source,
                                   const nn::UNet2DConfig& model, const ReadRunModel& read_run);

/// The weights that training starts from. Of a model with adapters those are the adapters' own, of
/// `source.lora_adapters`, which fit as they are or not at all; otherwise the weights of `source.pretrained`, fitted to
/// a model that may have more than the one they are from:
///
///   more in_channels       zeros for them in conv_in.weight: they change nothing at first (denoise/input_places.h)
///   num_class_embeds       zeros for all classes, or for those that are new; a null class stays the last one
///   parameters             the last layer of their embedding is zero, the first one as in a new model
///
/// Channels, parameters and classes have their places by name where the model's own names are recorded.
class PretrainedWeights {
 public:
  /// Opens what `source` names, and compares it with `model`, which is trained on such `images`. Throws OutputError for
  /// weights that do not fit. Collective.
  PretrainedWeights(const ModelSource& source, const nn::UNet2D& model, const ImageRecord& images,
                    const ReadRunModel& read_run, const run::Runtime& runtime);

  /// Throws OutputError where these are adapters of a run that were trained beside other weights than `base`.
  /// Collective.
  void expect_trained_beside(const AdapterBase& base);
  /// Calls `use`, which must not throw, on every rank with each weight of the model, or of its adapters, but the first
  /// layer of an embedding of parameters that is new, one at a time. Collective.
  void for_each(const std::function<void(const std::string& name, const at::Tensor& values)>& use);
  /// Whether there is such a layer, whose values are those of a new model.
  [[nodiscard]] bool leaves_some() const;
  /// "step 1000, ema:0 weights", or the folder.
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  /// Keys of [model] that are set to other values than the model's own are told.
  void warn_of_changes(const ModelSource& source, const nn::UNet2DConfig& model, const ReadRunModel& read_run,
                       const run::Runtime& runtime);
  void open_folder(const ModelSource& source);
  void open_adapter_folder(const base::Logger& log);
  void open_run(const std::string& weights, const ReadRunModel& read_run, const run::Runtime& runtime);
  void take_tensors();
  /// Places what has names, and says what was placed by its order alone or is mapped otherwise.
  void place_all(const nn::UNet2DConfig& model, const ImageRecord& images, const base::Logger& log);
  void place_unknown_inputs(const nn::UNet2DConfig& model, int64_t channels);
  /// `values` where they stand in the model, among zeros.
  [[nodiscard]] at::Tensor placed(const std::string& name, const at::Tensor& values) const;
  [[nodiscard]] bool is_left(const std::string& name) const;
  void for_each_stored(const std::function<void(const std::string& name, const at::Tensor& values)>& use);

  comm::Communicator& world_;
  bool adapters_;
  base::Path path_;
  interop::ExpectedShapes wanted_;
  interop::ExpectedShapes stored_;
  std::map<std::string, std::vector<int64_t>> places_;  // of weights along the axis that has names
  std::optional<ImageRecord> images_before_;            // what the weights were trained on, where that is recorded
  std::vector<std::string> classes_before_;             // their names, where these are recorded
  double class_dropout_before_ = 0.0;
  std::string description_;
  std::optional<SharedWeights> file_;                 // set for a folder of a model or of adapters
  std::optional<checkpoint::CheckpointStore> store_;  // set for a run, as are the next two
  std::optional<checkpoint::Checkpoint> checkpoint_;
  run::WeightChoice choice_;
  std::map<std::string, base::ParameterRole> roles_;
};

}  // namespace ddpm::denoise
