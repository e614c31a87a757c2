#include "cli/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/named.h"
#include "base/utc_text.h"
#include "checkpoint/folders.h"
#include "checkpoint/reshard.h"
#include "checkpoint/reshard_run.h"
#include "checkpoint/run_files.h"
#include "checkpoint/store.h"
#include "cli/checkpoint_export.h"
#include "cli/output.h"
#include "cli/ranges.h"
#include "cli/run_umask.h"
#include "comm/collectives.h"
#include "denoise/folder_weights.h"
#include "run/find_run.h"

namespace ddpm::cli {
namespace {

using base::OrderedJson;
using checkpoint::CheckpointInfo;

/// The run, or the checkpoint of one, that DIR names. Collective; exit code 4 when DIR is neither.
run::FoundRun find_place(Context& context, const std::string& asked) {
  auto found = run::find_run(context.files, context.session.world(), asked);
  comm::do_on_root(context.session.world(), [&] {
    if (found) return;
    if (!context.files.exists(asked)) throw base::OutputError("{}: no such folder", asked);
    if (denoise::holds_weights(asked)) {
      throw base::OutputError("{}: a model folder, which has no checkpoints; wanted: a run, or a checkpoint of one",
                              asked);
    }
    throw base::OutputError("{}: neither a run (no checkpoints, no {}) nor a checkpoint (no {})", asked,
                            checkpoint::kConfigName, checkpoint::kManifestName);
  });
  return *std::move(found);
}

checkpoint::CheckpointStore store_of(Context& context, const base::Path& run) {
  return {context.files, context.session.world(), run, context.log};
}

std::vector<CheckpointInfo> examine(Context& context, const run::FoundRun& place, bool deep) {
  checkpoint::CheckpointStore store = store_of(context, place.run);
  if (!place.checkpoint) return store.list(deep);
  auto info = store.inspect(*place.checkpoint, deep);
  comm::agree(context.session.world(), [&] {
    if (!info) throw base::OutputError("{}: was removed while it was looked at", place.checkpoint->string());
  });
  return {std::move(*info)};
}

/// Checkpoints, oldest first, with what the table and the JSON say beside them.
struct Listing {
  base::Path run;
  std::vector<CheckpointInfo> found;
  std::string latest;
  bool deep = false;

  /// The one that a start would take.
  [[nodiscard]] bool is_newest(const CheckpointInfo& info) const { return checkpoint::newest_of(found) == &info; }
  [[nodiscard]] bool is_latest(const CheckpointInfo& info) const { return info.directory.filename() == latest; }
};

/// How a checkpoint was found: whole, damaged, of a newer version of ddpm, or not to be read now.
enum class CheckpointState : uint8_t { ok, damaged, newer, unreadable };
constexpr auto names_of(CheckpointState /*type*/) {
  return std::to_array<std::string_view>({"ok", "damaged", "newer", "unreadable"});
}

CheckpointState state_of(const CheckpointInfo& info) {
  if (info.problem.empty()) return CheckpointState::ok;
  if (info.newer) return CheckpointState::newer;
  return info.damaged() ? CheckpointState::damaged : CheckpointState::unreadable;
}

OrderedJson json_of(const Listing& listing) {
  OrderedJson all = OrderedJson::array();
  for (const CheckpointInfo& info : listing.found) {
    const bool known = info.world_size > 0;
    all.push_back({{"directory", info.directory.string()},
                   {"step", info.step},
                   {"ranks", known ? OrderedJson(info.world_size) : OrderedJson()},
                   {"bytes", known ? OrderedJson(info.bytes) : OrderedJson()},
                   {"written", known ? OrderedJson(base::utc_text(info.written)) : OrderedJson()},
                   {"state", base::name_of(state_of(info))},
                   {"problem", info.problem},
                   {"newest", listing.is_newest(info)},
                   {"latest", listing.is_latest(info)}});
  }
  return {{"run", listing.run.string()}, {"checksums", listing.deep}, {"checkpoints", all}};
}

std::string table_of(const Listing& listing) {
  std::string text = fmt::format("{:>10}  {:20}  {:>5}  {:>15}  {}", "step", "written", "ranks", "bytes", "state");
  for (const CheckpointInfo& info : listing.found) {
    const bool known = info.world_size > 0;
    text +=
        fmt::format("\n{:>10}  {:20}  {:>5}  {:>15}  {}{}{}{}", info.step, known ? base::utc_text(info.written) : "-",
                    known ? std::to_string(info.world_size) : "-", known ? std::to_string(info.bytes) : "-",
                    base::name_of(state_of(info)), listing.is_newest(info) ? ", newest" : "",
                    listing.is_latest(info) ? ", LATEST" : "", info.problem.empty() ? "" : ": " + info.problem);
  }
  return text;
}

struct ReadArguments {
  std::string path;
  bool json = false;
  bool deep = false;
};

Listing make_listing(Context& context, const ReadArguments& arguments, bool deep) {
  const run::FoundRun place = find_place(context, arguments.path);
  context.enter("reading the checkpoints");
  std::vector<CheckpointInfo> found = examine(context, place, deep);
  std::string latest = comm::agree_on_root(
      context.session.world(), [&] { return checkpoint::read_latest(context.files, place.run).value_or(""); });
  return {place.run, std::move(found), std::move(latest), deep};
}

void run_list(Context& context, const ReadArguments& arguments) {
  const Listing listing = make_listing(context, arguments, arguments.deep);
  if (arguments.json) return print(context, dump(json_of(listing)));
  if (listing.found.empty()) return context.log.info("{} has no checkpoint yet", listing.run.string());
  print(context, table_of(listing));
}

/// "1 of 2 checkpoints damaged": how many are in the worst state that any of them is in, where not all are readable.
std::string verdict_on(const std::vector<CheckpointInfo>& found) {
  using Said = std::pair<CheckpointState, std::string_view>;
  for (const auto& [state, text] :
       {Said{CheckpointState::damaged, "damaged"}, Said{CheckpointState::newer, "of a newer version of ddpm"},
        Said{CheckpointState::unreadable, "cannot be read now"}}) {
    const auto count = std::ranges::count(found, state, state_of);
    if (count > 0) return fmt::format("{} of {} {}", count, base::counted(found.size(), "checkpoint"), text);
  }
  return "";
}

void run_verify(Context& context, const ReadArguments& arguments) {
  const Listing listing = make_listing(context, arguments, /*deep=*/true);
  std::vector<std::string> problems;
  int64_t bytes = 0;
  for (const CheckpointInfo& info : listing.found) {
    if (!info.problem.empty()) problems.push_back(info.problem);
    bytes += info.bytes;
  }
  if (arguments.json) {
    OrderedJson json = json_of(listing);
    json["valid"] = problems.empty() && !listing.found.empty();
    print(context, dump(json));
  }
  comm::do_on_root(context.session.world(), [&] {
    if (listing.found.empty()) run::refuse_without_checkpoint(arguments.path);
    if (problems.empty()) return;
    throw base::OutputError("{}: {}: {}", arguments.path, verdict_on(listing.found), fmt::join(problems, "; "));
  });
  if (arguments.json) return;
  print(context, fmt::format("{}: {}, {} bytes, all as they were written", arguments.path,
                             base::counted(listing.found.size(), "checkpoint"), bytes));
}

struct ReshardArguments {
  std::string path;
  base::Path output;
  int64_t ranks = 1;
  bool json = false;
};

void run_reshard(Context& context, const ReshardArguments& arguments) {
  comm::Communicator& world = context.session.world();
  const run::FoundRun place = find_place(context, arguments.path);
  checkpoint::CheckpointStore source = store_of(context, place.run);
  const auto found = place.checkpoint ? std::optional(source.open(*place.checkpoint)) : source.find();
  take_umask(context, place.run / checkpoint::kConfigName);
  comm::do_on_root(world, [&] {
    if (!found) run::refuse_without_checkpoint(arguments.path);
  });
  context.enter("writing the shards");
  const auto saved =
      checkpoint::reshard_run(*found, {.run = place.run, .output = arguments.output, .shards = arguments.ranks},
                              context.files, world, context.log);
  if (!arguments.json) {
    return print(context, fmt::format("{}: step {} of {} in {}, {} bytes, {:.1f} s", saved.directory.string(),
                                      found->manifest.step, found->directory.string(),
                                      base::counted(arguments.ranks, "shard"), saved.bytes, saved.seconds));
  }
  print(context, dump({{"source", found->directory.string()},
                       {"directory", saved.directory.string()},
                       {"step", found->manifest.step},
                       {"ranks", arguments.ranks},
                       {"bytes", saved.bytes},
                       {"seconds", saved.seconds}}));
}

constexpr const char* kDirHelp = "A run folder, or one of its checkpoints: RUN/checkpoints/step-N";

/// `list` and `verify`.
Subcommand declare_reader(const Subcommand& parent, Command& command, const std::string& name, const std::string& help,
                          const std::shared_ptr<ReadArguments>& arguments,
                          void (*run)(Context&, const ReadArguments&)) {
  const Subcommand reader = parent.add_subcommand(name, help);
  reader.add("DIR", &arguments->path, kDirHelp).required();
  add_json_flag(reader, arguments->json);
  reader.on_chosen(
      [&command, arguments, run] { command.run = [arguments, run](Context& context) { run(context, *arguments); }; });
  return reader;
}

void declare_reshard(const Subcommand& parent, Command& command) {
  const Subcommand reshard =
      parent.add_subcommand("reshard", "Write the state in another number of shards, into a new run folder");
  auto arguments = std::make_shared<ReshardArguments>();
  reshard.add("DIR", &arguments->path, std::string(kDirHelp) + "; of a run, its newest valid one").required();
  reshard.add("--ranks", &arguments->ranks, "Number of shards to write")
      .required()
      .accept(IntegerRange{1, checkpoint::kMaxShards});
  reshard.add("--output", &arguments->output, "The new run folder; it must not exist").required();
  add_json_flag(reshard, arguments->json);
  reshard.footer(
      "Training needs none of this: any number of ranks resumes from any number of shards. The new folder holds the\n"
      "checkpoint and the run's config.toml; `ddpm train --run.directory NEW` continues there.");
  reshard.on_chosen([&command, arguments] {
    command = {.run = [arguments](Context& context) { run_reshard(context, *arguments); }, .shares_work = true};
  });
}

}  // namespace

void add_checkpoint_command(const Subcommand& program, Command& command) {
  const auto parent = program.add_subcommand(
      "checkpoint", "Look at saved training state, check it, change its number of shards, and export models");
  parent.require_subcommand();
  const auto list_arguments = std::make_shared<ReadArguments>();
  const Subcommand list =
      declare_reader(parent, command, "list", "The checkpoints of a run, oldest first", list_arguments, run_list);
  list.add_flag("--deep", list_arguments->deep, "Also read every byte and compare it with its checksum, on all ranks");
  declare_reader(parent, command, "verify",
                 "Compare every byte with its checksum, on all ranks; exit code 4 if any is damaged",
                 std::make_shared<ReadArguments>(), run_verify);
  declare_reshard(parent, command);
  add_export_command(parent, command);
}

}  // namespace ddpm::cli
