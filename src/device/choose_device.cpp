#include "device/choose_device.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/host_name.h"
#include "comm/collectives.h"
#include "device/gpu_choice.h"
#include "device/gpu_signs.h"

namespace ddpm::device {
namespace {

/// Returns why this rank has no GPU, neither its own nor a shared one: no library, no driver, or no visible GPU.
/// Returns "" where it has one.
std::string gpu_problem() {
  try {
    static_cast<void>(DeviceLibrary().visible_devices());
    return "";
  } catch (const base::ConfigError& error) {
    return error.what();
  }
}

/// Whether all ranks have a GPU. The first rank without one warns if it was meant to have one. Collective.
bool all_have_gpus(comm::MpiSession& session, const base::Logger& log) {
  comm::Communicator& world = session.world();
  const std::string problem = gpu_problem();
  const int64_t first =
      comm::all_reduce(world, int64_t{problem.empty() ? world.size() : world.rank()}, comm::ReduceOp::min);
  if (first == world.size()) return true;
  const bool others = comm::all_reduce(world, int64_t{problem.empty()}, comm::ReduceOp::max) > 0;
  std::string sign = gpu_sign(comm::process_environment());
  if (sign.empty() && others) sign = "another rank has one";
  if (!sign.empty()) {
    sign = fmt::format("device = \"auto\" computes on CPUs, although the job has GPUs ({}): {}", sign, problem);
    if (first > 0) sign += fmt::format(" (rank {} on {})", first, base::host_name());
  }
  const std::string warning = comm::broadcast(world, sign, static_cast<int>(first));
  if (!warning.empty()) log.warn("{}", warning);
  return false;
}

SeenGpus names_in(const std::string& line) {
  SeenGpus names;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(',', begin);
    names.push_back(line.substr(begin, end - begin));
    if (end == std::string::npos) return names;
    begin = end + 1;
  }
}

/// What the ranks of this host see, in the order of local ranks. Where the nodes' names do not tell hosts apart, all of
/// them are taken to see what this one does. Collective.
std::vector<SeenGpus> seen_on_host(comm::MpiSession& session, const SeenGpus& mine) {
  const std::vector<std::string> nodes = comm::all_gather(session.world(), session.node_name());
  const std::vector<std::string> lines = comm::all_gather(session.world(), fmt::format("{}", fmt::join(mine, ",")));
  std::vector<SeenGpus> seen;
  int64_t place = -1;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    if (nodes[rank] != session.node_name()) continue;
    if (std::cmp_equal(rank, session.rank())) place = std::ssize(seen);
    seen.push_back(names_in(lines[rank]));
  }
  if (place == session.local_rank() && std::ssize(seen) == session.local_size()) return seen;
  return std::vector<SeenGpus>(static_cast<std::size_t>(session.local_size()), mine);
}

/// NCCL wants it. Collective.
void expect_own_gpu(comm::MpiSession& session, const DeviceFacts::Gpu& gpu) {
  const std::vector<std::string> places = comm::all_gather(
      session.world(), is_instance(gpu) ? "" : fmt::format("{} of {}", gpu.bus_id, session.node_name()));
  comm::agree(session.world(), [&] {
    const std::string shared = shared_gpu(places);
    if (!shared.empty()) throw base::ConfigError("{}", shared);
  });
}

void use_deterministic_kernels(at::Context& torch) {
  torch.setDeterministicAlgorithms(true, /*warn_only=*/false);
  torch.setDeterministicFillUninitializedMemory(false);  // nothing here reads uninitialised memory
  torch.setDeterministicCuDNN(true);
}

void use_on_gpu(at::Context& torch, bool benchmark, bool allow_tf32) {
  torch.setBenchmarkCuDNN(benchmark);
  torch.setAllowTF32CuBLAS(allow_tf32);
  torch.setAllowTF32CuDNN(allow_tf32);
}

}  // namespace

c10::Device choose_device(DeviceChoice asked, comm::MpiSession& session, const base::Logger& log, bool share_gpus) {
  comm::Communicator& world = session.world();
  if (asked == DeviceChoice::cpu) return c10::kCPU;
  if (asked == DeviceChoice::automatic && !all_have_gpus(session, log)) return c10::kCPU;
  SeenGpus mine;
  comm::agree(world, [&] {
    const DeviceLibrary library;
    static_cast<void>(library.visible_devices());  // throws where there is none
    mine = seen_gpus(library.describe_devices());
  });
  const std::vector<SeenGpus> seen = seen_on_host(session, mine);
  int index = 0;
  comm::agree(world, [&] { index = choose_gpus(seen, share_gpus).at(static_cast<std::size_t>(session.local_rank())); });
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

void expect_bf16(c10::Device device, comm::Communicator& world, const AskedPrecision& precision) {
  if (!device.is_cuda()) return;
  comm::agree(world, [&] {
    const DeviceFacts facts = DeviceLibrary().describe_devices();
    expect_bf16(facts.gpus.at(static_cast<std::size_t>(device.index())), precision);
  });
}

DeviceFacts::Gpu gpu_of(const DeviceFacts& facts, c10::Device device) {
  if (!device.is_cuda()) return {};
  const auto index = static_cast<std::size_t>(std::max<int>(device.index(), 0));
  return index < facts.gpus.size() ? facts.gpus[index] : DeviceFacts::Gpu{};
}

void choose_kernels(c10::Device device, const KernelChoice& choice) {
  at::Context& torch = at::globalContext();
  const bool deterministic = choice.reproducible || (device.is_cuda() && choice.same_on_ranks);
  if (deterministic) use_deterministic_kernels(torch);
  if (device.is_cuda()) use_on_gpu(torch, /*benchmark=*/!deterministic, choice.allow_tf32);
}

void choose_inference_kernels(c10::Device device, bool allow_tf32) {
  if (device.is_cuda()) use_on_gpu(at::globalContext(), /*benchmark=*/false, allow_tf32);
}

std::string shared_gpu(std::span<const std::string> places) {
  std::map<std::string_view, std::size_t> owners;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].empty()) continue;
    const auto [owner, is_first] = owners.try_emplace(places[rank], rank);
    if (is_first) continue;
    return fmt::format(
        "ranks {} and {} have the same GPU, {}; wanted: a GPU for each rank, or training with parallel.share_gpus",
        owner->second, rank, places[rank]);
  }
  return "";
}

DataParallelDevice::DataParallelDevice(c10::Device device, comm::MpiSession& session, bool share_gpus)
    : staged_(share_gpus && session.size() > 1), communicator_(&session.world()) {
  if (device.is_cpu()) return;
  library_.emplace();
  const c10::impl::VirtualGuardImpl streams(device.type());
  if (!staged_) expect_own_gpu(session, library_->describe_devices().gpus.at(static_cast<std::size_t>(device.index())));
  streams.synchronizeDevice(device.index());  // the work that made the model's state is done
  stream_.reset_stream(streams.getStreamFromGlobalPool(device, /*isHighPriority=*/false));
  session.set_failure_check([library = *library_] { return library.communicator_failure(); });
  session.before_abort([library = *library_] { library.abort_communicators(); });
  owned_ = staged_ ? library_->make_staged_communicator(session.world(), device.index())
                   : library_->make_nccl_communicator(session.world(), device.index());
  communicator_ = owned_.get();
}

std::unique_ptr<DeviceGraph> DataParallelDevice::make_graph() const {
  return library_ && !staged_ ? library_->make_graph() : nullptr;
}

}  // namespace ddpm::device
