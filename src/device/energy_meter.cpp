#include "device/energy_meter.h"

#include <charconv>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "device/nvml_library.h"

namespace ddpm::device {
namespace {

/// The first line of a small file of sysfs; nothing where it cannot be read.
std::optional<std::string> first_line(const base::Path& path) {
  constexpr std::size_t kLongest = 256;
  try {
    const base::InputFile file(path);
    std::string text(kLongest, '\0');
    text.resize(file.read_up_to(0, std::as_writable_bytes(std::span(text))));
    return text.substr(0, text.find('\n'));
  } catch (const base::OutputError&) {
    return std::nullopt;
  }
}

/// The number that a file begins with: "1234 J" for 1234.
std::optional<uint64_t> number_in(const base::Path& path) {
  const auto line = first_line(path);
  if (!line) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(line->data(), line->data() + line->size(), number);
  const bool whole = error == std::errc() && (end == line->data() + line->size() || *end == ' ');
  return whole ? std::optional(number) : std::nullopt;
}

std::vector<std::string> names_in(const base::Path& folder) {
  std::vector<std::string> names;
  try {
    for (const base::FolderEntry& entry : base::folder_entries(folder)) names.push_back(entry.name);
  } catch (const base::OutputError&) {
    return {};
  }
  return names;
}

/// Keeps the counters whose first reading worked.
std::vector<EnergyCounter> working(std::vector<EnergyCounter> counters) {
  std::erase_if(counters, [](const EnergyCounter& counter) { return !counter.works(); });
  return counters;
}

std::vector<EnergyCounter> cray_counters(const base::Path& folder) {
  const base::Path file = folder / "energy";
  std::vector<EnergyCounter> counters;
  counters.emplace_back([file] { return number_in(file); }, 0, 1.0);
  return working(std::move(counters));
}

/// The packages, of which none lies in another: "intel-rapl:0", while "intel-rapl:0:0" is a part of it.
std::vector<EnergyCounter> rapl_counters(const base::Path& powercap) {
  constexpr double kMicro = 1e-6;
  std::vector<EnergyCounter> counters;
  for (const std::string& name : names_in(powercap)) {
    const base::Path domain = powercap / name;
    if (!name.starts_with("intel-rapl:") || !first_line(domain / "name").value_or("").starts_with("package")) continue;
    const auto range = number_in(domain / "max_energy_range_uj");
    counters.emplace_back([file = domain / "energy_uj"] { return number_in(file); }, range.value_or(0), kMicro);
  }
  const std::size_t all = counters.size();
  counters = working(std::move(counters));
  return counters.size() == all ? std::move(counters) : std::vector<EnergyCounter>();
}

}  // namespace

EnergyCounter::EnergyCounter(std::function<std::optional<uint64_t>()> read, uint64_t range, double joules_per_unit)
    : read_(std::move(read)),
      range_(range),
      joules_per_unit_(joules_per_unit),
      last_(read_()),
      answers_(last_.has_value()) {}

void EnergyCounter::update() {
  const auto now = read_();
  answers_ = now.has_value();
  if (!now) return;
  if (*now >= *last_) {
    units_ += *now - *last_;
  } else if (range_ > *last_) {
    units_ += range_ - *last_ + *now;
  }
  last_ = now;
}

EnergyMeter::EnergyMeter(const std::vector<std::string>& gpus, const EnergyPlaces& places) {
  add("pm_counters", cray_counters(places.cray));
  if (!counters_.empty()) return;
  add("RAPL", rapl_counters(places.powercap));
  if (gpus.empty()) return;
  constexpr double kMilli = 1e-3;
  nvml_ = NvmlLibrary::open(places.nvml);
  std::vector<EnergyCounter> counters;
  for (const std::string& gpu : gpus) {
    if (!nvml_) break;
    counters.emplace_back([nvml = nvml_.get(), device = nvml_->find(gpu)] { return nvml->millijoules(device); }, 0,
                          kMilli);
  }
  counters = working(std::move(counters));
  if (counters.size() == gpus.size()) add("NVML", std::move(counters));
}

EnergyMeter::~EnergyMeter() = default;

void EnergyMeter::add(const std::string& source, std::vector<EnergyCounter> counters) {
  if (counters.empty()) return;
  source_ += source_.empty() ? source : " + " + source;
  for (EnergyCounter& counter : counters) counters_.push_back(std::move(counter));
}

void EnergyMeter::update() {
  for (EnergyCounter& counter : counters_) counter.update();
}

std::optional<double> EnergyMeter::joules() const {
  if (counters_.empty()) return std::nullopt;
  double sum = 0.0;
  for (const EnergyCounter& counter : counters_) {
    if (!counter.answers()) return std::nullopt;
    sum += counter.joules();
  }
  return sum;
}

EnergyWatch::EnergyWatch(const std::vector<std::string>& gpus, const EnergyPlaces& places,
                         std::chrono::milliseconds every)
    : meter_(gpus, places) {
  if (!meter_.source().empty()) thread_ = std::thread([this, every] { keep_reading(every); });
}

EnergyWatch::~EnergyWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EnergyWatch::keep_reading(std::chrono::milliseconds every) {
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, every, [this] { return stopped_; })) meter_.update();
}

std::string EnergyWatch::source() {
  const std::lock_guard lock(mutex_);
  return meter_.source();
}

std::optional<double> EnergyWatch::joules() {
  const std::lock_guard lock(mutex_);
  meter_.update();
  return meter_.joules();
}

}  // namespace ddpm::device
