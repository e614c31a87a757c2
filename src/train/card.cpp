#include "train/card.h"

#include <fmt/format.h>
#include <torch/headeronly/version.h>

#include "base/counted.h"
#include "base/version.h"
#include "comm/collectives.h"
#include "comm/library_version.h"
#include "denoise/image_record.h"
#include "device/device_library.h"
#include "device/processor_name.h"

namespace ddpm::train {
namespace {

/// The name that a path has where it lies; of "data/set/" that is "set".
std::string last_part(const base::Path& path) {
  return (std::filesystem::absolute(path) / "").lexically_normal().parent_path().filename().string();
}

std::vector<interop::CardStatistics> statistics_of(const data::DatasetInfo& info) {
  std::vector<interop::CardStatistics> statistics;
  const std::vector<data::Variable>& channels = info.image_field().variables;
  for (std::size_t i = 0; i < info.statistics.size() && i < channels.size(); ++i) {
    const auto& [mean, deviation, min, max] = info.statistics[i];
    const std::string unit = channels[i].unit.empty() ? "" : fmt::format(" [{}]", channels[i].unit);
    statistics.push_back({channels[i].name + unit, mean, deviation, min, max});
  }
  return statistics;
}

/// What this rank computes with, and the versions beneath it.
struct Device {
  std::string name;
  std::string versions;
};

Device describe(at::Device device) {
  if (!device.is_cuda()) return {device::processor_name(), ""};
  const device::DeviceFacts facts = device::DeviceLibrary().describe_devices();
  const std::size_t index = static_cast<unsigned char>(device.index());
  return {index < facts.gpus.size() ? facts.gpus[index].name : "",
          fmt::format(", CUDA {}, NCCL {}", facts.runtime, facts.nccl)};
}

void describe_machine(interop::ModelCard& card, const Task& task, comm::MpiSession& session) {
  const int64_t hosts =
      comm::all_reduce(session.world(), int64_t{session.local_rank() == 0 ? 1 : 0}, comm::ReduceOp::sum);
  const auto [name, versions] = describe(task.place.device);
  card.hardware = fmt::format("{} on {}; {}{}{}", base::counted(session.size(), "rank"), base::counted(hosts, "host"),
                              task.place.device.is_cuda() ? "GPU" : "CPU", name.empty() ? "" : ": ", name);
  card.versions = fmt::format("LibTorch {}.{}.{}, {}{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, TORCH_VERSION_PATCH,
                              comm::mpi_library_version(), versions);
}

std::string weights_text(const optim::EmaConfig& ema, const run::WeightChoice& weights) {
  const auto of_length = [](double length) { return fmt::format("average of relative length {}", length); };
  if (weights.relative_length) return of_length(*weights.relative_length);
  if (!weights.ema) return weights.text();
  const std::size_t first = ema.max_decay.size();
  return *weights.ema < first ? fmt::format("EMA (max_decay {})", ema.max_decay[*weights.ema])
                              : of_length(ema.relative_lengths.at(*weights.ema - first));
}

}  // namespace

interop::ModelCard card_of_run(const Configuration& configuration, const std::vector<DataPeriod>& history,
                               const engine::Progress& progress, const run::WeightChoice& weights) {
  const Config& config = configuration.values();
  interop::ModelCard card;
  card.stated = config.card;
  card.title = config.card.title.empty() ? last_part(config.run.directory) : config.card.title;
  if (!history.empty()) {
    card.dataset = history.back().name;
    card.dataset_hash = history.back().content_hash;
    card.dataset_images = history.back().images;
  }
  card.earlier_datasets = text_of_earlier(history);
  card.steps = progress.step;
  card.images_seen = progress.images_seen;
  card.weights = weights_text(config.ema, weights);
  card.config_toml = config::to_toml(configuration.schema(), false);
  card.program_version = base::kVersion;
  return card;
}

interop::ModelCard make_card(const Task& task, const Configuration& configuration, const engine::Progress& progress,
                             const run::WeightChoice& weights, const ValidationRecord& validated,
                             const run::Runtime& runtime) {
  const Config& config = task.config;
  interop::ModelCard card = card_of_run(configuration, task.history, progress, weights);
  card.statistics = statistics_of(task.dataset.info());
  if (const auto loss = validated.loss_at(progress.step); loss && config.data.validation) {
    card.validation = interop::CardValidation{*loss, last_part(*config.data.validation)};
  }
  card.class_names = task.image_record().class_names;
  describe_machine(card, task, runtime.session);
  return card;
}

}  // namespace ddpm::train
