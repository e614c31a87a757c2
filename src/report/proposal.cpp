#include "report/proposal.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "base/counted.h"
#include "report/words.h"

namespace ddpm::report {
namespace {

using base::counted;
using base::grouped;

constexpr double kHour = 3600.0;
/// Above this share of the time the energy is that of all of it.
constexpr double kMostMeasured = 0.99;

bool same(const ProposalRun& a, const ProposalRun& b, std::string_view key) {
  return a.record.setting(key) == b.record.setting(key);
}

/// Whether two runs did the same work per image, on devices of one kind.
bool comparable(const ProposalRun& a, const ProposalRun& b) {
  const observe::UsageLine& on_a = a.record.usage.back();
  const observe::UsageLine& on_b = b.record.usage.back();
  if (on_a.device != on_b.device || on_a.device_name != on_b.device_name) return false;
  const auto alike = [](const ProposalRun& one, const ProposalRun& other) {
    return std::ranges::all_of(one.record.settings, [&](const Setting& setting) {
      const bool counts = setting.path.starts_with("model.") || setting.path.starts_with("data.train") ||
                          setting.path.starts_with("precision.") || setting.path == "data.patch" ||
                          setting.path == "diffusion.mean_model";
      return !counts || other.record.setting(setting.path) == setting.value;
    });
  };
  return alike(a, b) && alike(b, a) && (same(a, b, "batch.global_size") || same(a, b, "batch.micro_size"));
}

/// GPUs, or without them cores, on which a run computes; 0: that is not known.
int64_t units_of(const ProposalRun& run) {
  if (run.record.usage.empty()) return 0;
  const observe::UsageLine& line = run.record.usage.back();
  return line.devices > 0 ? line.devices : line.cpus;
}
bool has_devices(const ProposalRun& run) { return run.record.usage.back().devices > 0; }
bool counts(const ProposalRun& run) { return units_of(run) > 0 && run.measures.images_per_second; }

/// The run on the most GPUs, or cores, of those whose speed is known.
const ProposalRun* largest_of(const std::vector<ProposalRun>& runs) {
  const ProposalRun* largest = nullptr;
  for (const ProposalRun& run : runs) {
    if (!counts(run)) continue;
    const bool larger = largest == nullptr || std::pair(has_devices(run), units_of(run)) >
                                                  std::pair(has_devices(*largest), units_of(*largest));
    if (larger) largest = &run;
  }
  return largest;
}

std::string hardware_text(const observe::UsageLine& line) {
  const std::string name = line.device_name.empty() ? "" : " (" + line.device_name + ")";
  if (line.devices > 0) {
    return fmt::format("{} of {}{}, {}", counted(line.devices, "GPU"), counted(line.nodes, "node"), name,
                       counted(line.ranks, "rank"));
  }
  return fmt::format("{} of {}{}, {}", counted(line.cpus, "CPU core"), counted(line.nodes, "node"), name,
                     counted(line.ranks, "rank"));
}

std::string used_text(const std::vector<ProposalRun>& runs, const ProposalOptions& options) {
  Account sum;
  std::set<std::string> sources;
  for (const ProposalRun& run : runs) {
    sum.seconds += run.account.seconds;
    sum.measured_seconds += run.account.measured_seconds;
    sum.core_seconds += run.account.core_seconds;
    sum.device_seconds += run.account.device_seconds;
    sum.joules += run.account.joules;
    sum.starts += run.account.starts;
    sum.lacks_gpus = sum.lacks_gpus || run.account.lacks_gpus;
    if (!run.account.energy_source.empty()) sources.insert(run.account.energy_source);
  }
  const bool one = runs.size() == 1;
  if (sum.starts == 0) return fmt::format("What {} used was not recorded.", one ? "it" : "they");
  std::string text =
      fmt::format("In all {} used {} core-hours", one ? "it has" : "they have", hours_text(sum.core_seconds));
  if (sum.device_seconds > 0.0) text += fmt::format(" and {} GPU-hours", hours_text(sum.device_seconds));
  if (sum.joules > 0.0) {
    const double kwh = kwh_of(sum.joules);
    text += fmt::format(", and {} kWh as measured by {}{}", number_text(kwh, 3), fmt::join(sources, ", "),
                        sum.lacks_gpus ? ", without GPUs," : "");
    if (sum.measured_seconds < kMostMeasured * sum.seconds) {
      text += fmt::format(" in {} of that time", share_text(sum.measured_seconds / sum.seconds));
    }
    if (options.grams_per_kwh)
      text += fmt::format(" ({} kg of CO₂)", number_text(kwh * *options.grams_per_kwh / 1000.0, 3));
  }
  return text + ".";
}

std::string efficiency_text(const std::optional<Efficiency>& found) {
  if (!found) return "";
  return fmt::format(" From {} to {} the parallel efficiency is {} ({} and {} images per second).",
                     counted(found->fewest, found->unit), counted(found->most, found->unit), share_text(found->share),
                     rate_text(found->rate_fewest), rate_text(found->rate_most));
}

/// What `images` take at the speed of `run`.
void extrapolate(const ProposalRun& run, Proposal& proposal) {
  const observe::UsageLine& line = run.record.usage.back();
  const double images = static_cast<double>(proposal.images);
  proposal.seconds = images / *run.measures.images_per_second;
  proposal.core_hours = *proposal.seconds * static_cast<double>(line.cpus) / kHour;
  if (line.devices > 0) proposal.device_hours = *proposal.seconds * static_cast<double>(line.devices) / kHour;
  const Account& account = run.account;
  if (account.measured_images > 0 && account.joules > 0.0 && !account.lacks_gpus) {
    proposal.kwh = kwh_of(account.joules / static_cast<double>(account.measured_images) * images);
  }
}

std::string extrapolation_text(const Proposal& proposal, const ProposalOptions& options) {
  std::string text =
      fmt::format(" At this speed {} take {} on the same hardware: {} core-hours", counted(proposal.images, "image"),
                  duration_text(*proposal.seconds), number_text(*proposal.core_hours, 3));
  if (proposal.device_hours) text += fmt::format(" and {} GPU-hours", number_text(*proposal.device_hours, 3));
  if (proposal.kwh) {
    text += fmt::format(", and {} kWh", number_text(*proposal.kwh, 3));
    if (options.grams_per_kwh) {
      text += fmt::format(" ({} kg of CO₂)", number_text(*proposal.kwh * *options.grams_per_kwh / 1000.0, 3));
    }
  }
  return text + ". Restarts, validation and evaluation come on top of it.";
}

/// All images of the planned training, or those of its steps so far.
int64_t images_of(const ProposalRun& run) {
  return run.measures.total.value_or(run.measures.step) * run.record.integer_setting("batch.global_size").value_or(0);
}

/// The speed of runs of which no hardware is known.
std::string speed_elsewhere(const std::vector<ProposalRun>& runs) {
  const auto known =
      std::ranges::find_if(runs, [](const ProposalRun& run) { return run.measures.images_per_second.has_value(); });
  if (known == runs.end()) return runs.size() == 1 ? " Its speed is not known." : " Their speed is not known.";
  return fmt::format(" On hardware that was not recorded, {} images were trained per second.",
                     rate_text(*known->measures.images_per_second));
}

}  // namespace

std::optional<Efficiency> efficiency_of(const std::vector<ProposalRun>& runs) {
  const ProposalRun* most = largest_of(runs);
  if (most == nullptr) return std::nullopt;
  const ProposalRun* fewest = nullptr;
  for (const ProposalRun& run : runs) {
    if (!counts(run) || !comparable(run, *most) || units_of(run) >= units_of(*most)) continue;
    if (fewest == nullptr || units_of(run) < units_of(*fewest)) fewest = &run;
  }
  if (fewest == nullptr || !(*fewest->measures.images_per_second > 0.0)) return std::nullopt;
  Efficiency found{.unit = has_devices(*most) ? "GPU" : "CPU core",
                   .fewest = units_of(*fewest),
                   .most = units_of(*most),
                   .rate_fewest = *fewest->measures.images_per_second,
                   .rate_most = *most->measures.images_per_second};
  found.share =
      found.rate_most / found.rate_fewest * static_cast<double>(found.fewest) / static_cast<double>(found.most);
  return found;
}

Proposal propose(const std::vector<ProposalRun>& runs, const ProposalOptions& options) {
  Proposal proposal{.efficiency = efficiency_of(runs)};
  const ProposalRun* largest = largest_of(runs);
  proposal.text =
      fmt::format("{} with ddpm, a program for training diffusion models on many ranks. {}",
                  runs.size() == 1 ? "One model was trained" : counted(runs.size(), "training run") + " were made",
                  used_text(runs, options));
  if (largest == nullptr) {
    proposal.text += speed_elsewhere(runs);
    return proposal;
  }
  proposal.images = options.images.value_or(images_of(*largest));
  proposal.text +=
      fmt::format(" On {}, {} images were trained per second.", hardware_text(largest->record.usage.back()),
                  rate_text(*largest->measures.images_per_second));
  proposal.text += efficiency_text(proposal.efficiency);
  if (proposal.images > 0 && *largest->measures.images_per_second > 0.0) {
    extrapolate(*largest, proposal);
    proposal.text += extrapolation_text(proposal, options);
  }
  return proposal;
}

}  // namespace ddpm::report
