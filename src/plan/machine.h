// The machine of a plan: how fast a rank computes, and how fast ranks talk within a node and between nodes.
//
// The constants are sustained values, not peaks. A user overrides each ([machine] of a TOML file, or --machine.KEY on
// the command line) with what was measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "config/schema.h"
#include "optim/mixed_precision.h"

namespace ddpm::plan {

struct Machine {
  std::string name = "cpu";
  double tflops = 0.0;              ///< one rank, float32, sustained over a training step
  double tflops_half = 0.0;         ///< one rank, bf16 or fp16, sustained over a training step
  double memory_gib = 0.0;          ///< one rank; 0: not known
  double memory_gb_per_s = 0.0;     ///< bandwidth of one rank's memory
  double host_gb_per_s = 0.0;       ///< bandwidth of a rank's share of its host's memory
  double host_link_gb_per_s = 0.0;  ///< bandwidth between a host's memory and a GPU's, one direction
  double node_latency_us = 0.0;     ///< α of a message within a node
  double node_gb_per_s = 0.0;       ///< 1/β of a rank's link within a node, one direction
  double network_latency_us = 0.0;  ///< α of a message between nodes
  double network_gb_per_s = 0.0;    ///< 1/β of a node's links to the others together, one direction
};

void describe(config::Section& section, Machine& c);

/// The names that find_machine() knows: "cpu, v100, ...".
std::string machine_names();
/// Whether the machine of this name computes on GPUs.
bool is_gpu(const std::string& machine);
/// What a machine with 16-bit products trains in: "bf16", or "fp16" for GPUs that are older than bf16.
optim::MixedPrecision usual_precision(const std::string& machine);
/// "a100" for "NVIDIA A100-SXM4-80GB"; "" for a GPU that has no constants here.
std::string machine_of_gpu(const std::string& gpu_name);

/// cpu (one rank of `threads` cores), a GPU's name (one rank per GPU, `ranks_per_node` network ports), or a TOML file
/// with a section [machine], whose missing keys are those of `cpu`. Throws ConfigError for another name, or a bad file.
Machine find_machine(const std::string& name_or_file, int64_t threads, int64_t ranks_per_node);

/// Applies "--machine.KEY VALUE" pairs. Throws ConfigError.
void override_machine(Machine& machine, std::span<const std::string> arguments);

}  // namespace ddpm::plan
