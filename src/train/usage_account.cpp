#include "train/usage_account.h"

#include <array>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include "comm/collectives.h"
#include "comm/job.h"
#include "device/choose_device.h"
#include "device/device_library.h"
#include "device/processor_name.h"

namespace ddpm::train {
namespace {

/// The GPU that this rank computes on; nothing in it on the host.
device::DeviceFacts::Gpu gpu_of(c10::Device device) {
  if (device.is_cpu()) return {};
  return device::gpu_of(device::DeviceLibrary().describe_devices(), device);
}

/// What the ranks of this host gave, without what several gave alike.
std::vector<std::string> given_on_host(comm::MpiSession& session, const std::string& mine) {
  const std::vector<std::string> hosts = comm::all_gather(session.world(), session.host_name());
  const std::vector<std::string> given = comm::all_gather(session.world(), mine);
  std::set<std::string> found;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i] == session.host_name() && !given[i].empty()) found.insert(given[i]);
  }
  return {found.begin(), found.end()};
}

std::string fresh_id(double time) {
  std::random_device entropy;
  return fmt::format("{:.0f}-{:08x}", time, entropy());
}

/// Removes the half of a line at the end of the file.
void end_last_line(base::FileSystem& files, const base::Path& path) {
  constexpr uint64_t kMaxUsageBytes = uint64_t{1} << 30U;
  if (!files.exists(path)) return;
  std::string text = files.read(path, kMaxUsageBytes);
  if (text.empty() || text.ends_with('\n')) return;
  text.resize(text.rfind('\n') + 1);
  base::write_atomically(files, path, text);
}

}  // namespace

UsageAccount::UsageAccount(run::RunFolder& folder, const run::Runtime& runtime, int64_t total_steps)
    : folder_(folder), runtime_(runtime), total_steps_(total_steps) {}

void UsageAccount::name_sets(std::string images, std::string validation) {
  images_ = std::move(images);
  validation_ = std::move(validation);
}

void UsageAccount::begin(const engine::Progress& progress, c10::Device device) {
  comm::MpiSession& session = runtime_.session;
  comm::Communicator& world = session.world();
  device::DeviceFacts::Gpu gpu;
  comm::agree(world, [&] { gpu = gpu_of(device); });
  const bool reads = session.local_rank() == 0;
  const std::vector<std::string> gpus = given_on_host(session, gpu.bus_id);
  if (reads) watch_ = std::make_unique<device::EnergyWatch>(gpus);
  std::array<int64_t, 3> sums = {reads ? 1 : 0, at::get_num_threads(), reads ? static_cast<int64_t>(gpus.size()) : 0};
  comm::all_reduce(world, sums, comm::ReduceOp::sum);
  const double now = base::unix_seconds();
  progress_ = &progress;
  begun_ = base::Clock::now();
  line_ = {.start = fresh_id(now),
           .time = now,
           .host = session.node_name(),
           .nodes = sums[0],
           .ranks = session.size(),
           .device = device.is_cpu() ? "cpu" : "cuda",
           .device_name = device.is_cpu() ? device::processor_name() : gpu.name,
           .devices = sums[2],
           .cpus = sums[1],
           .job = comm::job_number(comm::process_environment()),
           .from = progress.step,
           .to = progress.step,
           .total = total_steps_,
           .images = images_,
           .validation = validation_};
  torn_ = true;  // as a killed start may have left it
  try_to_append(observe::UsageEvent::begin, progress.step);
}

void UsageAccount::saved(int64_t step) {
  if (progress_ != nullptr) try_to_append(observe::UsageEvent::checkpoint, step);
}

void UsageAccount::close() {
  if (progress_ == nullptr) return;
  try_to_append(observe::UsageEvent::end, progress_->step);
  progress_ = nullptr;
  watch_.reset();
}

void UsageAccount::fail(const std::string& error) {
  line_.error = error;
  close();
}

/// A sum without one of the nodes would be too small, and is not given.
void UsageAccount::sum_energy() {
  comm::Communicator& world = runtime_.session.world();
  const std::optional<double> mine = watch_ ? watch_->joules() : std::nullopt;
  std::array<double, 2> sums = {mine.value_or(0.0), mine ? 1.0 : 0.0};
  comm::all_reduce(world, sums, comm::ReduceOp::sum);
  const std::vector<std::string> sources = comm::all_gather(world, watch_ ? watch_->source() : "");
  std::set<std::string> names(sources.begin(), sources.end());
  names.erase("");
  const bool whole = sums[1] == static_cast<double>(line_.nodes);
  line_.joules = whole ? std::optional(sums[0]) : std::nullopt;
  line_.energy_source = whole ? fmt::format("{}", fmt::join(names, ", ")) : "";
}

void UsageAccount::try_to_append(observe::UsageEvent event, int64_t step) {
  try {
    append(event, step);
  } catch (const comm::AgreedError& error) {  // thrown on all ranks
    torn_ = true;
    if (!line_.error.empty()) return;  // which is the reason for the run's end; the disk may be full
    runtime_.log.warn("the run {} without a line in its account: {}",
                      event == observe::UsageEvent::end ? "ends" : "goes on", error.what());
  }
}

void UsageAccount::append(observe::UsageEvent event, int64_t step) {
  sum_energy();
  line_.event = event;
  line_.time = base::unix_seconds();
  line_.to = step;
  line_.seconds = base::seconds_since(begun_);
  line_.core_seconds = line_.seconds * static_cast<double>(line_.cpus);
  line_.device_seconds = line_.seconds * static_cast<double>(line_.devices);
  comm::do_on_root(runtime_.session.world(), [&] {
    if (torn_) end_last_line(runtime_.files, folder_.usage());
    torn_ = false;
    const auto file = runtime_.files.open_append(folder_.usage());
    file->write(observe::to_json_line(line_) + "\n");
    file->sync();
    file->close();
  });
}

}  // namespace ddpm::train
