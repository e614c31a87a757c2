#include "plan/machine.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/input_file.h"
#include "config/resolve.h"

namespace ddpm::plan {
namespace {

/// What UNets reach of a GPU's dense peak: MLPerf Training v4's Stable Diffusion on H200, 31 %.
constexpr double kShareOfPeak = 0.31;

struct Gpu {
  const char* name;
  double peak_tf32;  ///< TFLOP/s, dense
  double peak_half;
  double memory_gib;
  double memory_gb_per_s;
  double host_gb_per_s;  ///< a GPU's eighth of its server's
  double host_link_gb_per_s;
  double node_gb_per_s;
  double port_gb_per_s;  ///< network bandwidth per GPU
  bool bf16 = true;      ///< products in bf16 (compute capability 8.0); peak_half is fp16's otherwise
};

// NVIDIA's data sheets (docs/plan.md names them), dense: without structured sparsity. NVLink at about 80 % of its line
// rate, as nccl-tests measure it; EDR, HDR and NDR InfiniBand at 90 %. Hosts of eight GPUs: 16 channels of DDR4-3200 or
// DDR5-4800 and PCIe 3, 4 or 5 x16, each at about 80 %. Without NVLink ranks of a node talk over PCIe; GeForce cards
// cannot reach each other there, and go through the host's memory. GPUs without TF32 have their float32 peak.
constexpr std::array<Gpu, 8> kGpus{{
    {"v100", 15.7, 125.0, 32.0, 900.0, 25.0, 12.5, 120.0, 5.6, false},
    {"t4", 8.1, 65.0, 16.0, 300.0, 25.0, 12.5, 10.0, 5.6, false},
    {"a100", 156.0, 312.0, 80.0, 2039.0, 40.0, 25.0, 240.0, 22.5},
    {"l40s", 183.0, 362.0, 48.0, 864.0, 40.0, 25.0, 20.0, 11.2},
    {"rtx4090", 82.6, 165.2, 24.0, 1008.0, 40.0, 25.0, 10.0, 2.8},
    {"h100", 494.0, 989.0, 80.0, 3350.0, 60.0, 50.0, 370.0, 45.0},
    {"h200", 494.0, 989.0, 141.0, 4800.0, 60.0, 50.0, 370.0, 45.0},
    {"b200", 1100.0, 2250.0, 180.0, 8000.0, 60.0, 50.0, 740.0, 45.0},
}};

const Gpu* find_gpu(const std::string& name) {
  const auto found = std::ranges::find_if(kGpus, [&](const Gpu& gpu) { return name == gpu.name; });
  return found == kGpus.end() ? nullptr : &*found;
}

Machine of_gpu(const Gpu& gpu, int64_t ranks_per_node) {
  return {.name = gpu.name,
          .tflops = kShareOfPeak * gpu.peak_tf32,
          .tflops_half = kShareOfPeak * gpu.peak_half,
          .memory_gib = gpu.memory_gib,
          .memory_gb_per_s = gpu.memory_gb_per_s,
          .host_gb_per_s = gpu.host_gb_per_s,
          .host_link_gb_per_s = gpu.host_link_gb_per_s,
          .node_latency_us = 3.0,
          .node_gb_per_s = gpu.node_gb_per_s,
          .network_latency_us = 5.0,
          .network_gb_per_s = gpu.port_gb_per_s * static_cast<double>(ranks_per_node)};
}

struct Processor {
  bool wide_vectors = false;   ///< vector instructions work on 16 floats
  bool bf16_products = false;  ///< bf16 products are computed in hardware
};

Processor this_processor() {
#if defined(__x86_64__)
  return {.wide_vectors = __builtin_cpu_supports("avx512f") != 0,
          .bf16_products = __builtin_cpu_supports("avx512bf16") != 0};
#else
  return {};
#endif
}

/// Without bf16 products the model computes them in float32, or takes no less time. A core at what a step of this
/// program sustains (docs/performance.md), with AVX-512 before Winograd's convolutions, at least; messages through
/// shared memory; 100 Gbit/s between nodes.
Machine of_cpu(int64_t threads) {
  const auto cores = static_cast<double>(threads);
  const Processor processor = this_processor();
  const double tflops = processor.wide_vectors ? 0.14 : 0.1;
  return {.name = "cpu",
          .tflops = tflops * cores,
          .tflops_half = (processor.bf16_products ? 0.22 : 0.9 * tflops) * cores,
          .memory_gb_per_s = 8.0 * cores,
          .host_gb_per_s = 8.0 * cores,
          .host_link_gb_per_s = 4.0 * cores,  // a copy reads and writes
          .node_latency_us = 1.0,
          .node_gb_per_s = 4.0,
          .network_latency_us = 2.0,
          .network_gb_per_s = 11.0};
}

config::Schema schema_of(Machine& machine) {
  config::Schema schema;
  config::Section section = schema.section("machine", "Measured constants.", config::Identity::may_change);
  describe(section, machine);
  return schema;
}

}  // namespace

void describe(config::Section& section, Machine& c) {
  const config::KeyOptions positive{.min = 0.0, .above_min = true};
  section.key("name", c.name, "Shown beside the plan.")
      .key("tflops", c.tflops, "TFLOP/s that one rank sustains in float32.", positive)
      .key("tflops_half", c.tflops_half, "TFLOP/s that one rank sustains in bf16 or fp16.", positive)
      .key("memory_gib", c.memory_gib, "Memory of one rank; 0: not known.", {.min = 0.0})
      .key("memory_gb_per_s", c.memory_gb_per_s, "Bandwidth of one rank's memory.", positive)
      .key("host_gb_per_s", c.host_gb_per_s, "Bandwidth of a rank's share of its host's memory.", positive)
      .key("host_link_gb_per_s", c.host_link_gb_per_s, "Bandwidth between that and a GPU's memory, one direction.",
           positive)
      .key("node_latency_us", c.node_latency_us, "Latency of a message within a node.", {.min = 0.0})
      .key("node_gb_per_s", c.node_gb_per_s, "Bandwidth of a rank's link within a node, one direction.", positive)
      .key("network_latency_us", c.network_latency_us, "Latency of a message between nodes.", {.min = 0.0})
      .key("network_gb_per_s", c.network_gb_per_s, "Bandwidth of a node's links together, one direction.", positive);
}

std::string machine_names() {
  std::string names = "cpu";
  for (const Gpu& gpu : kGpus) names += fmt::format(", {}", gpu.name);
  return names;
}

bool is_gpu(const std::string& machine) { return find_gpu(machine) != nullptr; }

optim::MixedPrecision usual_precision(const std::string& machine) {
  const Gpu* gpu = find_gpu(machine);
  return gpu == nullptr || gpu->bf16 ? optim::MixedPrecision::bf16 : optim::MixedPrecision::fp16;
}

std::string machine_of_gpu(const std::string& gpu_name) {
  std::string plain = " ";
  for (const char c : gpu_name) {
    const auto letter = static_cast<unsigned char>(c);
    plain += std::isalnum(letter) != 0 ? static_cast<char>(std::tolower(letter)) : ' ';
  }
  plain += ' ';
  if (plain.find(" rtx 4090 ") != std::string::npos && plain.find(" laptop ") == std::string::npos) return "rtx4090";
  for (const Gpu& gpu : kGpus) {
    if (plain.find(fmt::format(" {} ", gpu.name)) != std::string::npos) return gpu.name;
  }
  return "";
}

Machine find_machine(const std::string& name_or_file, int64_t threads, int64_t ranks_per_node) {
  if (const Gpu* gpu = find_gpu(name_or_file)) return of_gpu(*gpu, ranks_per_node);
  Machine machine = of_cpu(threads);
  if (name_or_file == machine.name) return machine;
  if (!base::read_as<base::ConfigError>([&] { return base::is_there(name_or_file); })) {
    throw base::ConfigError("--machine {}: neither a file nor one of {}", name_or_file, machine_names());
  }
  machine.name = name_or_file;
  config::apply(schema_of(machine), config::read_toml(name_or_file), name_or_file);
  return machine;
}

void override_machine(Machine& machine, std::span<const std::string> arguments) {
  config::apply_overrides(schema_of(machine), arguments);
}

}  // namespace ddpm::plan
