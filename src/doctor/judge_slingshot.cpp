// Judges HPE Slingshot: what libfabric's provider for it (cxi) and NCCL, which reaches it through a plugin, are told.
//
// What is wanted of them is what HPE recommends for NCCL on Slingshot, "Running NCCL-Based Applications" and ccl_env.sh
// of github.com/HewlettPackard/shs-ccl-docs; the deadlock of memhooks is issue 9003 of github.com/ofiwg/libfabric.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "doctor/groups.h"
#include "doctor/judge.h"
#include "doctor/nccl_settings.h"

namespace ddpm::doctor {
namespace {

bool mentions(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_number_from(std::string_view text, long long least) { return std::atoll(std::string(text).c_str()) >= least; }

/// A variable, the values with which NCCL works well ("" stands for one that is not set), and why.
struct Wish {
  const char* name;
  Severity severity;
  bool (*fits)(std::string_view value);
  const char* wanted;
  const char* why;
};

constexpr Wish kWishes[] = {
    {"FI_MR_CACHE_MONITOR", Severity::warning,
     [](std::string_view value) { return value == "userfaultfd" || value == "kdreg2"; }, "userfaultfd (or kdreg2)",
     "with memhooks, which older libfabric takes by itself, NCCL may hang"},
    {"FI_CXI_DISABLE_HOST_REGISTER", Severity::warning, [](std::string_view value) { return value == "1"; }, "1",
     "otherwise the provider registers its buffers with the GPU, by calls that may end in a deadlock"},
    {"FI_CXI_RX_MATCH_MODE", Severity::warning,
     [](std::string_view value) { return value == "hybrid" || value == "software"; }, "hybrid",
     "messages are then matched in software when the adapter has no room left to match them"},
    {"FI_CXI_DEFAULT_CQ_SIZE", Severity::note, [](std::string_view value) { return is_number_from(value, 131072); },
     "131072", "the completion queue of the default size is too small for large jobs"},
    {"FI_CXI_DEFAULT_TX_SIZE", Severity::note, [](std::string_view value) { return is_number_from(value, 1024); },
     "2048", "large jobs have more messages under way than the default has room for"},
    {"FI_CXI_RDZV_PROTO", Severity::note, [](std::string_view value) { return value == "alt_read"; }, "alt_read",
     "the rendezvous for NCCL's messages; the launcher has to allow it (srun --network=disable_rdzv_get)"},
    // "^hsn" is all but these.
    {"NCCL_SOCKET_IFNAME", Severity::note,
     [](std::string_view value) { return !value.starts_with('^') && mentions(value, "hsn"); }, "hsn",
     "NCCL's ranks otherwise find each other through any interface, such as the one for management"},
    // LOC, which is 0 in NCCL's older numbers, is for no adapter at all.
    {"NCCL_NET_GDR_LEVEL", Severity::note,
     [](std::string_view value) { return !value.empty() && value != "LOC" && value != "0"; }, "PHB",
     "adapters then read and write the memory of GPUs themselves"},
};
constexpr Wish kCrossNic = {"NCCL_CROSS_NIC", Severity::note, [](std::string_view value) { return value == "1"; }, "1",
                            "rings may then use different adapters on different hosts, faster on large systems"};

/// What a rank's libraries read for `name`: its environment, or else NCCL's files; "" where nothing is set.
std::string setting_of(const ProcessFacts& rank, const std::string& name) {
  for (const auto* place : {&rank.environment, &rank.nccl_file}) {
    const auto found = place->find(name);
    if (found != place->end()) return found->second;
  }
  return "";
}

/// One finding for each different text that `look` says of ranks ("" for nothing), with who they are unless all say it.
std::vector<Finding> judge_each_rank(const Survey& survey, Severity severity, const std::string& advice,
                                     const std::function<std::string(const ProcessFacts& rank)>& look) {
  std::vector<std::string> texts;
  for (const ProcessFacts& rank : survey.ranks) texts.push_back(look(rank));
  const auto groups = group_ranks(texts, survey.rank_hosts());
  std::vector<Finding> findings;
  for (const RankGroup& group : groups) {
    if (group.value.empty()) continue;
    findings.push_back(
        {severity, Area::slingshot,
         groups.size() == 1 ? group.value : fmt::format("{}: {}", who(group.ranks, group.hosts), group.value), advice});
  }
  return findings;
}

std::vector<Finding> judge_wish(const Survey& survey, const Wish& wish) {
  return judge_each_rank(
      survey, wish.severity, fmt::format("set it to {}: {}", wish.wanted, wish.why), [&](const ProcessFacts& rank) {
        const std::string value = setting_of(rank, wish.name);
        if (wish.fits(value)) return std::string();
        return value.empty() ? fmt::format("{} is not set", wish.name) : fmt::format("{} is {}", wish.name, value);
      });
}

std::vector<Finding> judge_provider(const Survey& survey) {
  return judge_each_rank(
      survey, Severity::warning, "set it to cxi, or unset it: MPI would not use Slingshot's adapters",
      [](const ProcessFacts& rank) {
        const std::string value = setting_of(rank, "FI_PROVIDER");
        // "^tcp" is all but TCP; lnx joins cxi and shared memory.
        const bool all_but = value.starts_with('^');
        const bool uses = value.empty() || mentions(value, "lnx") || mentions(value, "cxi") != all_but;
        return uses ? std::string() : fmt::format("FI_PROVIDER is {}", value);
      });
}

/// Without its plugin NCCL knows TCP alone on this network.
std::vector<Finding> judge_plugin(const Survey& survey) {
  const auto sockets = [](const ProcessFacts& rank) {
    std::string net = setting_of(rank, "NCCL_NET");
    std::ranges::transform(net, net.begin(),
                           [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    return net == "socket";
  };
  std::vector<Finding> findings =
      judge_each_rank(survey, Severity::warning, "unset it: NCCL speaks TCP, and does not look for its plugin",
                      [&](const ProcessFacts& rank) { return std::string(sockets(rank) ? "NCCL_NET is Socket" : ""); });
  const auto missing = [&](bool is_demanded) {
    return [&sockets, is_demanded](const ProcessFacts& rank) {
      if (sockets(rank) || !rank.nccl_plugin.empty()) return std::string();
      if (setting_of(rank, "NCCL_NET").empty() == is_demanded) return std::string();
      const auto names = nccl_plugin_names(setting_of(rank, "NCCL_NET_PLUGIN"));
      return names.empty() ? std::string("NCCL_NET_PLUGIN is none")
                           : fmt::format("NCCL finds no network plugin ({})", fmt::join(names, ", "));
    };
  };
  append(findings, judge_each_rank(survey, Severity::warning,
                                   "put the folder of aws-ofi-nccl's library into LD_LIBRARY_PATH: without it NCCL "
                                   "speaks TCP over Slingshot",
                                   missing(false)));
  append(findings, judge_each_rank(survey, Severity::problem,
                                   "put the folder of aws-ofi-nccl's library into LD_LIBRARY_PATH: NCCL_NET asks for "
                                   "it, and NCCL ends without it",
                                   missing(true)));
  append(findings, judge_each_rank(survey, Severity::note,
                                   "set it to the plugin's name (AWS Libfabric, or what NCCL_DEBUG=INFO says): NCCL "
                                   "then ends where the plugin fails, in place of speaking TCP",
                                   [](const ProcessFacts& rank) {
                                     const bool is_left_open =
                                         !rank.nccl_plugin.empty() && setting_of(rank, "NCCL_NET").empty();
                                     return std::string(is_left_open ? "NCCL_NET is not set" : "");
                                   }));
  return findings;
}

std::vector<Finding> judge_one_host(const Survey& survey) {
  return judge_each_rank(survey, Severity::note,
                         "unset it for one host: NCCL would send through the network what GPUs can hand to each other",
                         [](const ProcessFacts& rank) {
                           const std::string net = setting_of(rank, "NCCL_NET");
                           return net.empty() ? net : fmt::format("NCCL_NET is {}", net);
                         });
}

}  // namespace

std::vector<Finding> judge_slingshot(const Survey& survey) {
  const auto& adapters = survey.machine(0).cxi_devices;
  if (adapters.empty()) return {};
  const bool has_gpus = gpus_of_their_own(survey);
  const bool uses_nccl = has_gpus && survey.hosts.size() > 1;
  std::vector<Finding> findings = judge_provider(survey);
  if (uses_nccl) {
    append(findings, judge_plugin(survey));
    for (const Wish& wish : kWishes) append(findings, judge_wish(survey, wish));
    if (adapters.size() > 1) append(findings, judge_wish(survey, kCrossNic));
  } else if (has_gpus && survey.ranks.size() > 1) {
    append(findings, judge_one_host(survey));
  }
  if (!findings.empty()) return findings;
  const std::string nccl = uses_nccl  ? fmt::format("NCCL's plugin is {}", survey.ranks.front().nccl_plugin)
                           : has_gpus ? std::string("one host: NCCL uses no network")
                                      : std::string("no GPUs: NCCL is not used");
  return {{Severity::ok, Area::slingshot, fmt::format("{}; {}", fmt::join(adapters, ", "), nccl), ""}};
}

}  // namespace ddpm::doctor
