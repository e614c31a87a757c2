#include "train/plan/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/counted.h"

namespace ddpm::train::plan {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiB = 1024.0 * kMiB;

/// Three digits that count.
std::string digits(double value) {
  if (value == 0.0) return "-";
  if (value < 9.995) return fmt::format("{:.2f}", value);
  return value < 99.95 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} µs", seconds * 1e6);
  return seconds < 1.0 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

/// The unit of a table whose largest entry is `bytes`.
std::pair<const char*, double> unit_for(int64_t bytes) {
  return static_cast<double>(bytes) >= kGiB ? std::pair("GiB", kGiB) : std::pair("MiB", kMiB);
}

std::string stage_text(const Arrangement& a) {
  return a.zero_stage == 0 ? "0" : fmt::format("{} / {}", a.zero_stage, a.shard_size);
}

std::string row_text(const Candidate& c, double unit, bool limited) {
  const Arrangement& a = c.arrangement;
  const Memory& m = c.memory;
  std::string line = fmt::format("{:5}{:6}{:>9}{:6}", a.nodes, a.ranks(), stage_text(a), a.micro_size);
  const auto add = [&](int width, int64_t bytes) {
    line += fmt::format("{:>{}}", digits(static_cast<double>(bytes) / unit), width);
  };
  add(8, m.weights + m.master);
  add(6, m.gradients);
  add(8, m.moments);
  add(6, m.averages);
  add(8, m.buffers);
  add(7, m.activations);
  add(6, m.workspace + m.images + m.process + m.saved);
  add(6, m.total());
  line += fmt::format("{:>8.3g}{:4.0f}%", c.time.total(), 100.0 * c.time.efficiency());
  return line + (!limited ? "" : c.fits ? "  yes" : "   no");
}

/// Text in lines of at most 96 characters, the later ones indented.
std::string wrapped(const std::string& text) {
  constexpr std::size_t kWidth = 96;
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const bool fits = used + end - at + 1 <= kWidth;
    if (at > 0) out += fits ? " " : "\n    ";
    used = fits ? used + end - at + 1 : 4 + end - at;
    out += text.substr(at, end - at);
    at = end + 1;
  }
  return out + "\n";
}

/// The place of `note` in `notes`, counted from 1; it is added if it is not there.
std::size_t note_number(std::vector<std::string>& notes, const std::string& note) {
  auto found = std::find(notes.begin(), notes.end(), note);
  if (found == notes.end()) found = notes.insert(notes.end(), note);
  return static_cast<std::size_t>(found - notes.begin()) + 1;
}

std::string table_text(const Request& request, const std::vector<Candidate>& all) {
  int64_t largest = 0;
  for (const Candidate& c : all) largest = std::max(largest, c.memory.total());
  const auto [unit_name, unit] = unit_for(largest);
  const bool limited = request.limit_bytes.has_value();
  std::string text = fmt::format("{:>72}\n", fmt::format("memory of a rank, {}", unit_name));
  text +=
      fmt::format("nodes ranks  ZeRO / S micro weights grads moments   EMA buffers activ. other total  s/step  eff{}\n",
                  limited ? " fits" : "");
  std::vector<std::string> notes;
  int64_t nodes = 0;
  for (const Candidate& c : all) {
    const Arrangement& a = c.arrangement;
    if (a.nodes != nodes && nodes != 0) text += "\n";
    nodes = a.nodes;
    text += c.refusal.empty() ? row_text(c, unit, limited) + "\n"
                              : fmt::format("{:5}{:6}{:>9}  cannot run: [{}]\n", a.nodes, a.ranks(), stage_text(a),
                                            note_number(notes, c.refusal));
  }
  for (std::size_t i = 0; i < notes.size(); ++i)
    text += fmt::format("\n{}", wrapped(fmt::format("[{}] {}", i + 1, notes[i])));
  return text;
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
  return fmt::format(
      "{} × {}, {}", counted(a.nodes, "node"), counted(a.ranks_per_node, "rank"),
      a.zero_stage == 0 ? std::string("ZeRO 0") : fmt::format("ZeRO {} over {}", a.zero_stage, a.shard_size));
}

std::string line_text(const char* title, const Candidate& c) {
  return fmt::format("{}: {}, micro-batch {}:\n  {} per rank, {} per step, {:.3g} node-hours per 1,000 steps\n", title,
                     arrangement_text(c.arrangement), c.arrangement.micro_size, size_text(c.memory.total()),
                     seconds_text(c.time.total()), c.cost() / 3.6);
}

std::string recommendation_text(const Request& request, const std::vector<Candidate>& all) {
  const Candidate* best = cheapest(all);
  if (best == nullptr) {
    return "Nothing fits. A smaller batch.micro_size, precision.mixed_precision = \"bf16\" or more nodes need less per "
           "rank.\n";
  }
  std::string text = line_text("As configured", predict(request, request.given));
  const Candidate* fast = fastest(all, request.given.nodes);
  if (fast != nullptr && fast != best) text += line_text("Fastest on all nodes", *fast);
  text += line_text(request.limit_bytes ? "Cheapest that fits" : "Cheapest", *best);
  const bool unshared = request.shard_size && best->arrangement.zero_stage == 0;
  return fmt::format("{}For the cheapest, set\n\n{}{}", text, indented(toml_of(best->arrangement)),
                     unshared ? "\nand take parallel.dp_shard_size and dp_replicate_size out.\n" : "");
}

std::string machine_text(const Machine& m, bool half) {
  return fmt::format(
      "Machine  {}: {:.3g} TFLOP/s{}, node {:.3g} GB/s and {:.3g} µs, network {:.3g} GB/s and {:.3g} µs\n", m.name,
      half ? m.tflops_half : m.tflops, half ? " (half)" : "", m.node_gb_per_s, m.node_latency_us, m.network_gb_per_s,
      m.network_latency_us);
}

base::OrderedJson json_of(const Memory& memory) {
  base::OrderedJson json = base::OrderedJson::object();
  for (const auto& [kind, bytes] : memory.by_kind()) json[std::string(kind)] = bytes;
  if (memory.host > 0) json["of_these_on_host"] = memory.host;
  return json;
}

base::OrderedJson json_of(const Candidate& c) {
  const Arrangement& a = c.arrangement;
  base::OrderedJson json{{"nodes", a.nodes},           {"ranks", a.ranks()},
                         {"zero_stage", a.zero_stage}, {"dp_shard_size", a.shard_size},
                         {"micro_size", a.micro_size}, {"works", c.refusal.empty()}};
  if (!c.refusal.empty()) {
    json["refusal"] = c.refusal;
    return json;
  }
  json["fits"] = c.fits;
  json["memory_bytes"] = json_of(c.memory);
  json["peak_memory_bytes"] = c.memory.total();
  json["memory_while_saving_bytes"] = c.memory.saving();
  json["seconds_per_step"] = c.time.total();
  json["efficiency"] = c.time.efficiency();
  return json;
}

base::OrderedJson json_of(const std::vector<Traffic>& lines, const Machine& machine) {
  base::OrderedJson json = base::OrderedJson::array();
  for (const Traffic& line : lines) {
    json.push_back({{"collective", name_of(line.kind)},
                    {"of", line.what},
                    {"ranks", line.group.size()},
                    {"calls", line.calls},
                    {"sent_bytes", line.sent_bytes()},
                    {"seconds", seconds_of(line, machine)}});
  }
  return json;
}

}  // namespace

std::string size_text(int64_t bytes) {
  if (bytes == 0) return "-";
  const auto [name, unit] = unit_for(bytes);
  return fmt::format("{} {}", digits(static_cast<double>(bytes) / unit), name);
}

std::string toml_of(const Arrangement& a) {
  std::string text = fmt::format("[batch]\nglobal_size = {}\nmicro_size = {}\n\n[parallel]\nzero_stage = {}\n",
                                 a.global_size, a.micro_size, a.zero_stage);
  if (a.zero_stage > 0) text += fmt::format("dp_shard_size = {}\n", a.shard_size);
  if (a.offload != "none") text += fmt::format("offload = \"{}\"\n", a.offload);
  return text;
}

std::string memory_text(const Memory& memory) {
  std::string text;
  for (const auto& [kind, bytes] : memory.by_kind()) {
    text += fmt::format("  {:14}{:>12}\n", kind, size_text(bytes));
  }
  if (memory.host > 0) text += fmt::format("  {:14}{:>12}\n", "on the host", size_text(-memory.host));
  text += fmt::format("  {:14}{:>12}\n", "together", size_text(memory.total()));
  return text + fmt::format("  {:14}{:>12}\n", "while saving", size_text(memory.saving()));
}

std::string traffic_text(const std::vector<Traffic>& traffic) {
  if (traffic.empty()) return "  none: there is one rank\n";
  std::string text = fmt::format("  {:<16}{:<16}{:>7}{:>8}{:>12}\n", "collective", "of", "ranks", "calls", "sent");
  for (const Traffic& line : traffic) {
    text += fmt::format("  {:<16}{:<16}{:>7}{:>8}{:>12}\n", name_of(line.kind), line.what, line.group.size(),
                        line.calls, size_text(line.sent_bytes()));
  }
  return text;
}

std::string text_of(const Request& request, const std::vector<Candidate>& all) {
  const ModelSizes& model = request.model;
  std::string text =
      fmt::format("Model    {} in {}, {:.4g} GFLOP forward per image\n", counted(model.parameters, "parameter"),
                  counted(std::ssize(model.unit_elements), "unit"), model.forward_flops * 1e-9);
  text += fmt::format("Batch    {} per step, {} at a time\n", counted(request.given.global_size, "image"),
                      request.given.micro_size);
  text += machine_text(request.machine, request.given.mixed_precision);
  if (request.limit_bytes) text += fmt::format("Limit    {} per rank\n", size_text(*request.limit_bytes));
  text += fmt::format("\n{}\n", table_text(request, all));
  return text + recommendation_text(request, all);
}

base::OrderedJson json_of(const Request& request, const std::vector<Candidate>& all) {
  const Candidate given = predict(request, request.given);
  base::OrderedJson json{{"peak_memory_bytes", given.memory.total()},
                         {"seconds_per_step", given.time.total()},
                         {"efficiency", given.time.efficiency()},
                         {"fits", given.fits},
                         {"parameters", request.model.parameters},
                         {"forward_flops_per_image", request.model.forward_flops},
                         {"given", json_of(given)},
                         {"communication", json_of(given.traffic, request.machine)},
                         {"machine", request.machine.name}};
  base::OrderedJson rows = base::OrderedJson::array();
  for (const Candidate& candidate : all) rows.push_back(json_of(candidate));
  json["table"] = std::move(rows);
  const Candidate* best = cheapest(all);
  json["recommendation"] = best == nullptr ? base::OrderedJson(nullptr) : json_of(*best);
  return json;
}

}  // namespace ddpm::train::plan
