#include "doctor/doctor.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/sha256.h"
#include "bench/comm_bench.h"
#include "comm/collectives.h"
#include "comm/mpi_library.h"
#include "comm/watchdog.h"
#include "doctor/greeting.h"
#include "doctor/judge.h"
#include "doctor/process_json.h"
#include "doctor/this_process.h"
#include "doctor/tournament.h"

namespace ddpm::doctor {
namespace {

/// A part of the examination, for the watchdog.
comm::Phase part(const char* name, const DoctorOptions& options) {
  return {.name = name, .deadline_s = options.timeout_s, .key = "--timeout"};
}

std::string text_of(const DoctorOptions& options) {
  // A name may be longer than the greeting's field.
  return base::sha256_hex(fmt::format("{} {} {} {}", options.folder.string(), options.timeout_s,
                                      options.reduction_bytes, options.file_bytes));
}

class Examination {
 public:
  Examination(const run::Runtime& runtime, const DoctorOptions& options, Survey& survey, comm::Watchdog& watchdog)
      : runtime_(runtime),
        options_(options),
        world_(runtime.session.world()),
        rank_(static_cast<std::size_t>(runtime.session.rank())),
        survey_(survey),
        watchdog_(watchdog) {
    const int host = survey.host_of[rank_];
    first_ = survey.ranks_of[static_cast<std::size_t>(host)].front() == world_.rank();
    // Ranks are numbered in the order of hosts; those that are not the first of their host get a group that is not
    // used.
    firsts_ = world_.split(first_ ? 0 : 1, host);
    neighbours_ = world_.split(host, world_.rank());
  }

  void gather_facts() {
    enter("looking at its host");
    ProcessFacts own = this_process(runtime_.session);
    if (!first_) own.machine = {};
    survey_.thread_level = comm::mpi_thread_level();
    for (const std::string& text : comm::all_gather(world_, sent_text(own))) {
      survey_.ranks.push_back(base::Json::parse(text).get<ProcessFacts>());
    }
  }

  void measure_links() {
    enter("messages between two ranks");
    const Link inside = measure_ends(*neighbours_);
    comm::barrier(world_);
    if (first_) {
      const std::vector<double> own{inside.latency_s, inside.bytes_per_second};
      const std::vector<double> all = comm::all_gather(*firsts_, own);
      for (std::size_t host = 0; host < survey_.hosts.size(); ++host) {
        survey_.inside.push_back(
            {0, static_cast<int>(survey_.ranks_of[host].size()) - 1, all[2 * host], all[2 * host + 1]});
      }
    }
    // All ranks count the rounds: a rank that is stuck in one has a lower count than those that wait for the next.
    const auto begin_round = [this](int64_t /*round*/) {
      enter("messages between two ranks");
      comm::barrier(world_);
    };
    const int rounds = tournament_rounds(static_cast<int>(survey_.hosts.size()));
    if (first_) {
      survey_.links = doctor::measure_links(*firsts_, begin_round);
    } else {
      for (int round = 0; round < rounds; ++round) begin_round(round);
    }
    begin_round(rounds);
    if (first_) survey_.clocks = comm::measure_clocks(*firsts_, base::unix_seconds);
    comm::barrier(world_);
  }

  void measure_sums() {
    enter("sums over all ranks");
    if (world_.size() < 2) return;
    if (gpus_of_their_own(survey_)) add_curve(device::DeviceChoice::cuda);
    add_curve(device::DeviceChoice::cpu);
  }

  void test_folder() {
    enter("the test of the folder");
    survey_.visitors = visitors();
    const bool visits = std::ranges::find(survey_.visitors, world_.rank()) != survey_.visitors.end();
    const auto comm = world_.split(visits ? 0 : 1, world_.rank());
    if (visits) {
      FolderCheck check(runtime_.files, *comm, options_.folder,
                        {.file_bytes = options_.file_bytes, .patience = patience_within(options_.timeout_s)});
      const base::Unfinished unfinished(runtime_.files, check.folder());
      survey_.folder = check.run();
    }
    comm::barrier(world_);
  }

 private:
  void enter(const char* name) { watchdog_.enter(part(name, options_)); }

  void add_curve(device::DeviceChoice device) {
    constexpr int64_t kLeastBytes = 1024;
    constexpr int64_t kRepeats = 5;
    const auto begin_size = [this](int64_t /*bytes*/) { enter("sums over all ranks"); };
    const bench::CommBench times = bench::bench_comm(device, runtime_,
                                                     {.repeats = kRepeats,
                                                      .min_bytes = kLeastBytes,
                                                      .max_bytes = options_.reduction_bytes,
                                                      .kinds = {bench::Collective::all_reduce},
                                                      .begin_size = begin_size});
    ReductionCurve curve{.device = device, .points = {}};
    for (const auto& one : times.times) {
      curve.points.push_back({one.bytes, one.seconds.median, one.bytes_per_second(times.ranks)});
    }
    survey_.curves.push_back(std::move(curve));
  }

  /// Takes one rank of each host; on a single host it takes the first two, so that another rank can see what one does.
  [[nodiscard]] std::vector<int> visitors() const {
    std::vector<int> ranks;
    for (const auto& of_host : survey_.ranks_of) ranks.push_back(of_host.front());
    if (survey_.hosts.size() == 1 && world_.size() > 1) ranks.push_back(survey_.ranks_of.front()[1]);
    return ranks;
  }

  const run::Runtime& runtime_;
  const DoctorOptions& options_;
  comm::Communicator& world_;
  std::size_t rank_;
  Survey& survey_;
  comm::Watchdog& watchdog_;
  bool first_ = false;
  std::unique_ptr<comm::Communicator> firsts_;      ///< the first ranks of all hosts, in the order of hosts
  std::unique_ptr<comm::Communicator> neighbours_;  ///< the ranks of this host
};

}  // namespace

Diagnosis examine(const run::Runtime& runtime, const DoctorOptions& options,
                  const std::function<void(int64_t done)>& done) {
  comm::Communicator& world = runtime.session.world();
  comm::Watchdog& watchdog = *runtime.watchdog;
  watchdog.enter(part("looking at its host", options));
  Diagnosis diagnosis;
  const auto greetings = exchange_greetings(world, make_greeting(text_of(options), runtime.session.node_name()));
  std::vector<std::string> hosts;
  hosts.reserve(greetings.size());
  for (const Greeting& greeting : greetings) hosts.emplace_back(greeting.host.data());
  diagnosis.survey = make_survey(hosts);
  diagnosis.findings = judge_greetings(greetings);
  diagnosis.code = exit_code_of(diagnosis.findings);
  if (!diagnosis.findings.empty()) {
    watchdog.rest();
    return diagnosis;
  }
  Examination examination(runtime, options, diagnosis.survey, watchdog);
  done(1);
  examination.gather_facts();
  done(2);
  examination.measure_links();
  done(3);
  examination.measure_sums();
  done(4);
  examination.test_folder();
  done(5);
  if (world.rank() == 0) diagnosis.findings = judge(diagnosis.survey);
  auto code = static_cast<int64_t>(exit_code_of(diagnosis.findings));
  world.broadcast({&code, 1, base::DType::i64}, 0).wait();
  diagnosis.code = static_cast<base::ExitCode>(code);
  watchdog.rest();
  return diagnosis;
}

}  // namespace ddpm::doctor
