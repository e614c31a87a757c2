#include "plan/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/binary_units.h"
#include "base/counted.h"
#include "base/named.h"
#include "base/text_table.h"
#include "base/wrapped.h"

namespace ddpm::plan {

using base::counted;
using base::grouped;

namespace {

constexpr double kMiB = base::kMiB;
constexpr double kGiB = base::kGiB;

/// Three significant digits.
std::string digits(double value) {
  if (value == 0.0) return "-";
  if (value < 9.995) return fmt::format("{:.2f}", value);
  return value < 99.95 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

std::string seconds_text(double seconds) {
  if (seconds < 999.5e-6) return digits(seconds * 1e6) + " µs";
  return seconds < 0.9995 ? digits(seconds * 1e3) + " ms" : digits(seconds) + " s";
}

/// The unit of one number.
std::pair<const char*, double> unit_for(int64_t bytes) {
  return static_cast<double>(bytes) >= kGiB ? std::pair("GiB", kGiB) : std::pair("MiB", kMiB);
}

/// The unit of a table whose largest entry is `bytes`: the smaller entries must stay readable.
std::pair<const char*, double> table_unit(int64_t bytes) {
  constexpr double kDigits = 10000.0;
  return static_cast<double>(bytes) >= kDigits * kMiB ? std::pair("GiB", kGiB) : std::pair("MiB", kMiB);
}

std::string stage_text(const Arrangement& a) {
  return a.parallelism.zero_stage == 0 ? "0" : fmt::format("{}/{}", a.parallelism.zero_stage, a.shard_size());
}

std::vector<std::string> row_of(const Candidate& c, double unit, bool limited) {
  const Memory& m = c.memory;
  const Arrangement& a = c.arrangement;
  std::vector<std::string> row{std::to_string(a.nodes), std::to_string(a.ranks()), stage_text(a),
                               std::to_string(a.parallelism.micro_size)};
  for (const int64_t bytes : {m.weights + m.master, m.gradients, m.moments, m.averages, m.buffers, m.activations,
                              m.workspace + m.images + m.process + m.saved, m.total()}) {
    row.push_back(digits(static_cast<double>(bytes) / unit));
  }
  row.push_back(seconds_text(c.time.total()));
  row.push_back(fmt::format("{:.0f}%", 100.0 * c.time.efficiency()));
  if (limited) row.emplace_back(c.fits ? "yes" : "no");
  return row;
}

std::string wrapped(const std::string& text, std::size_t indent = 4) {
  return base::wrapped(text, /*width=*/96, /*first=*/0, indent);
}

/// Returns the place of `note` in `notes`, counted from 1, and adds it if it is missing.
std::size_t note_number(std::vector<std::string>& notes, const std::string& note) {
  auto found = std::find(notes.begin(), notes.end(), note);
  if (found == notes.end()) found = notes.insert(notes.end(), note);
  return static_cast<std::size_t>(found - notes.begin()) + 1;
}

/// Whether any stage can run on so many nodes, in enough memory or not.
bool runs_on(const std::vector<Candidate>& all, int64_t nodes) {
  return std::ranges::any_of(all,
                             [nodes](const Candidate& c) { return c.arrangement.nodes == nodes && c.refusal.empty(); });
}

std::string table_text(const Request& request, const std::vector<Candidate>& all) {
  int64_t largest = 0;
  for (const Candidate& c : all) largest = std::max(largest, c.memory.total());
  const auto [unit_name, unit] = table_unit(largest);
  const bool limited = request.limit_bytes.has_value();
  base::TextTable table;
  table.add({"nodes", "ranks", "ZeRO/S", "micro", "weights", "grads", "Adam", "EMA", "buffer", "activ.", "other",
             "total", "step", "eff.", limited ? "fits" : ""});
  std::vector<std::string> notes;
  int64_t nodes = 0;
  for (const Candidate& c : all) {
    const Arrangement& a = c.arrangement;
    if (!runs_on(all, a.nodes)) continue;
    if (a.nodes != nodes && nodes != 0) table.add({});
    nodes = a.nodes;
    table.add(c.refusal.empty()
                  ? row_of(c, unit, limited)
                  : std::vector<std::string>{std::to_string(a.nodes), std::to_string(a.ranks()), stage_text(a),
                                             fmt::format("[{}]", note_number(notes, c.refusal))});
  }
  std::string text = fmt::format("Memory of a rank in {}, and the time of a step\n{}", unit_name, table.text());
  for (std::size_t i = 0; i < notes.size(); ++i)
    text += fmt::format("\n{}", wrapped(fmt::format("[{}] cannot run: {}", i + 1, notes[i])));
  return text;
}

/// "8, 16 and 32"
std::string enumerated(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return text;
}

/// The numbers of nodes that no stage can run on: those whose ranks cannot have equal shares of the batch in one line,
/// every other one with the reason that the configuration's own stage has.
std::string unplanned_text(const Request& request, const std::vector<Candidate>& all) {
  std::vector<int64_t> uneven;
  std::string others;
  for (const Candidate& c : all) {
    if (c.arrangement.parallelism.zero_stage != 0 || runs_on(all, c.arrangement.nodes)) continue;
    const Arrangement& a = c.arrangement;
    if (a.data_parallel_size() == a.ranks() && a.parallelism.global_size % a.ranks() != 0) {
      uneven.push_back(a.nodes);
    } else {
      others += wrapped(
          fmt::format("Not planned: {}: {}", counted(a.nodes, "node"), in_own_stage(request, all, a.nodes).refusal));
    }
  }
  if (uneven.empty()) return others.empty() ? "" : others + "\n";
  std::vector<std::string> numbers(uneven.size());
  std::ranges::transform(uneven, numbers.begin(), [](int64_t nodes) { return grouped(nodes); });
  return wrapped(fmt::format(
             "Not planned: {} {}, because batch.global_size = {} is not a multiple of {}.", enumerated(numbers),
             uneven == std::vector<int64_t>{1} ? "node" : "nodes", request.given.parallelism.global_size,
             uneven.size() == 1 ? counted(uneven.front() * request.given.ranks_per_node, "rank")
                                : fmt::format("their ranks, {} per node", grouped(request.given.ranks_per_node)))) +
         others + "\n";
}

std::string indented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != '\n' && (out.empty() || out.back() == '\n')) out += "  ";
    out += c;
  }
  return out;
}

std::string arrangement_text(const Arrangement& a) {
  return fmt::format("{} × {}, {}", counted(a.nodes, "node"), counted(a.ranks_per_node, "rank"),
                     a.parallelism.zero_stage == 0
                         ? std::string("ZeRO 0")
                         : fmt::format("ZeRO {} over {}", a.parallelism.zero_stage, a.shard_size()));
}

/// What the ranks of a node that compute on GPUs take of its memory; "" for others.
std::string host_text(const Candidate& c) {
  const HostMemory& host = c.memory.beside;
  if (host.total() == 0) return "";
  return fmt::format("  {} of host memory per node beside the programs, {} of it pinned\n", size_text(c.host_bytes()),
                     size_text(c.arrangement.ranks_per_node * host.pinned));
}

std::string line_text(const char* title, const Candidate& c) {
  return fmt::format("{}: {}, micro-batch {}:\n  {} per rank, {} per step, {:.3g} node-hours per 1,000 steps\n{}",
                     title, arrangement_text(c.arrangement), c.arrangement.parallelism.micro_size,
                     size_text(c.memory.total()), seconds_text(c.time.total()), c.cost() / 3.6, host_text(c));
}

/// What would need less memory than the least of these, of what is not done yet.
std::string nothing_fits_text(const Request& request, const std::vector<Candidate>& all) {
  const Candidate* least = nullptr;
  for (const Candidate& c : all) {
    if (c.refusal.empty() && (least == nullptr || c.memory.total() < least->memory.total())) least = &c;
  }
  const Memory& m = least->memory;
  const layout::Parallelism& p = request.given.parallelism;
  std::vector<std::string> ways;
  if (p.micro_size > 1) ways.emplace_back("a smaller batch.micro_size");
  if (!request.given.mixed_precision) {
    ways.push_back(
        fmt::format("precision.mixed_precision = \"{}\"", base::name_of(usual_precision(request.machine.name))));
  }
  if (request.model.checkpointing != parallel::ActivationCheckpointing::blocks) {
    ways.emplace_back("parallel.activation_checkpointing = \"blocks\"");
  }
  if (request.given.on_device && p.offload == layout::Offload::none) {
    ways.emplace_back("parallel.offload = \"optimizer\"");
  }
  // ZeRO shares the state over more ranks; images are no smaller for them.
  const bool alone = request.given.ranks() == 1;
  if (!alone && 4 * m.model_state() > m.total()) ways.emplace_back("more nodes");
  ways.push_back(fmt::format("{}tiles of images, stages or parts of blocks, which --meshes compares",
                             !alone                    ? ""
                             : request.given.on_device ? "more GPUs for "
                                                       : "more ranks for "));
  return wrapped(fmt::format("Nothing fits: the least is {} per rank, {} of it activations. What needs less: {}.",
                             size_text(m.total()), size_text(m.activations), enumerated(ways)));
}

std::string recommendation_text(const Request& request, const std::vector<Candidate>& all) {
  const Candidate* best = cheapest(all);
  if (best == nullptr) return nothing_fits_text(request, all);
  const Candidate given = configured(request);
  std::string text = given.refusal.empty() ? line_text("As configured", given)
                                           : wrapped(fmt::format("As configured: {} cannot run: {}",
                                                                 arrangement_text(given.arrangement), given.refusal));
  const Candidate* fast = fastest(all, request.given.nodes);
  if (fast != nullptr && fast != best) text += line_text("Fastest on all nodes", *fast);
  text += line_text(request.limit_bytes ? "Cheapest that fits" : "Cheapest", *best);
  return fmt::format("{}For the cheapest, set\n\n{}{}", text, indented(toml_of(best->arrangement)),
                     keys_to_take_out(request.given.parallelism, best->arrangement.parallelism));
}

std::string machine_text(const Machine& m, bool half) {
  return fmt::format(
      "Machine  {}: {:.3g} TFLOP/s{}, node {:.3g} GB/s and {:.3g} µs, network {:.3g} GB/s and {:.3g} µs\n", m.name,
      half ? m.tflops_half : m.tflops, half ? " (half)" : "", m.node_gb_per_s, m.node_latency_us, m.network_gb_per_s,
      m.network_latency_us);
}

}  // namespace

std::string size_text(int64_t bytes) {
  if (bytes == 0) return "-";
  const auto [name, unit] = unit_for(bytes);
  return fmt::format("{} {}", digits(static_cast<double>(bytes) / unit), name);
}

std::string toml_of(const Arrangement& a) {
  std::string text = fmt::format("[batch]\nglobal_size = {}\nmicro_size = {}\n\n[parallel]\nzero_stage = {}\n",
                                 a.parallelism.global_size, a.parallelism.micro_size, a.parallelism.zero_stage);
  if (a.parallelism.zero_stage > 0) {
    text += fmt::format("dp_shard_size = {}\n", a.shard_size());
    const auto& replicate = a.parallelism.dp_replicate_size;  // set where the configuration sets it: both are replaced
    if (replicate) text += fmt::format("dp_replicate_size = {}\n", *replicate);
  }
  if (a.parallelism.offload != layout::Offload::none) {
    text += fmt::format("offload = \"{}\"\n", base::name_of(a.parallelism.offload));
  }
  return text;
}

std::vector<std::string> keys_in_the_way(const layout::Parallelism& set, const layout::Parallelism& chosen) {
  const bool unshared = chosen.zero_stage == 0;
  std::vector<std::string> keys;
  if (set.dp_shard_size && unshared) keys.emplace_back("dp_shard_size");
  if (set.dp_replicate_size && (unshared || !chosen.dp_replicate_size)) keys.emplace_back("dp_replicate_size");
  if (!set.stage_units.empty() && chosen.stage_units.empty()) keys.emplace_back("stage_units");
  return keys;
}

std::string keys_to_take_out(const layout::Parallelism& set, const layout::Parallelism& chosen) {
  const std::vector<std::string> keys = keys_in_the_way(set, chosen);
  return keys.empty() ? "" : fmt::format("\nand take parallel.{} out.\n", enumerated(keys));
}

std::string memory_text(const Memory& memory) {
  std::string text;
  for (const auto& [kind, bytes] : memory.by_kind()) {
    text += fmt::format("  {:14}{:>12}\n", kind, size_text(bytes));
  }
  if (memory.host > 0) text += fmt::format("  {:14}{:>12}\n", "on the host", size_text(-memory.host));
  text += fmt::format("  {:14}{:>12}\n", "together", size_text(memory.total()));
  text += fmt::format("  {:14}{:>12}\n", "while saving", size_text(memory.saving()));
  const HostMemory& host = memory.beside;
  if (host.total() == 0) return text;
  return text + fmt::format("  {:14}{:>12} of the host's memory, {} of it pinned\n", "beside the GPU",
                            size_text(host.total()), size_text(host.pinned));
}

std::string traffic_text(const std::vector<Traffic>& traffic) {
  if (traffic.empty()) return "  none: there is one rank\n";
  base::TextTable table({base::Align::left, base::Align::left}, 2, "  ");
  table.add({"collective", "of", "ranks", "calls", "sent"});
  for (const Traffic& line : traffic) {
    table.add({std::string(base::name_of(line.kind)), line.what, grouped(line.group.size()), grouped(line.calls),
               size_text(line.sent_bytes())});
  }
  return table.text();
}

std::string parameters_text(const ModelSizes& model) {
  const std::string beside =
      model.pretrained > 0 ? fmt::format(" beside {} pretrained ones", grouped(model.pretrained)) : "";
  return fmt::format("{}{} in {}", counted(model.parameters, "parameter"), beside,
                     counted(std::ssize(model.unit_elements), "unit"));
}

std::string pipeline_text(const Arrangement& arrangement) {
  if (arrangement.parallelism.pipeline_size == 1) return "";
  return fmt::format("Stages   {}, for {}: the slowest waits for others in {:.1f} % of forward and backward\n",
                     arrangement.parallelism.pipeline_size,
                     counted(arrangement.accumulation_steps(), "accumulation step"), 100.0 * arrangement.bubble());
}

std::string islands_text(const Arrangement& arrangement) {
  const layout::Parallelism& p = arrangement.parallelism;
  if (p.sync_every == 0 || !layout::Mesh::refusal(p.degrees(arrangement.ranks()), arrangement.ranks()).empty()) {
    return "";
  }
  return fmt::format("Islands  {} in all that is compared, since their number decides what is trained\n",
                     grouped(arrangement.islands()));
}

std::vector<std::string> warnings_of(const Request& request) {
  if (!configured(request).refusal.empty()) return {};
  return layout::warnings(request.given.parallelism, request.given.ranks());
}

std::string text_of(const Request& request, const std::vector<Candidate>& all) {
  const ModelSizes& model = request.model;
  std::string text =
      fmt::format("Model    {}, {:.4g} GFLOP forward per image\n", parameters_text(model), model.forward_flops * 1e-9);
  text += fmt::format("Batch    {} per step, {} at a time\n", counted(request.given.parallelism.global_size, "image"),
                      request.given.parallelism.micro_size);
  text += pipeline_text(request.given);
  text += islands_text(request.given);
  for (const std::string& line : warnings_of(request)) text += wrapped("Warning  " + line, /*indent=*/9);
  text += machine_text(request.machine, request.given.mixed_precision);
  if (request.limit_bytes) text += fmt::format("Limit    {} per rank\n", size_text(*request.limit_bytes));
  text += fmt::format("\n{}\n{}", table_text(request, all), unplanned_text(request, all));
  return text + recommendation_text(request, all);
}

}  // namespace ddpm::plan
