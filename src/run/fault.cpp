#include "run/fault.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/collectives.h"
#include "run/signal_news.h"

namespace ddpm::run {
namespace {

/// Signals whose purpose is left to programs, or is to request an end.
struct Signal {
  std::string_view name;
  int number;
  bool usual = false;  ///< stops a training unless fault.stop_signals says otherwise
};
constexpr std::array<Signal, 6> kSignals = {{{"USR1", SIGUSR1, true},
                                             {"USR2", SIGUSR2, true},
                                             {"TERM", SIGTERM, true},
                                             {"INT", SIGINT},
                                             {"HUP", SIGHUP},
                                             {"URG", SIGURG}}};

std::array<std::string_view, kSignals.size()> signal_names() {
  std::array<std::string_view, kSignals.size()> names;
  std::ranges::transform(kSignals, names.begin(), &Signal::name);
  return names;
}

std::string signal_name(int number) {
  const auto* found = std::ranges::find(kSignals, number, &Signal::number);
  return found != kSignals.end() ? fmt::format("SIG{}", found->name) : fmt::format("signal {}", number);
}

// Flags by the place in kSignals. hold_stop_signals() runs before any initialiser.
constinit std::array<volatile std::sig_atomic_t, kSignals.size()> came{};
constinit std::array<struct sigaction, kSignals.size()> before{};  // what the signals meant until they were caught
constinit std::array<bool, kSignals.size()> caught{};

std::size_t place_of(int number) {
  return static_cast<std::size_t>(std::ranges::find(kSignals, number, &Signal::number) - kSignals.begin());
}

/// The first of kSignals that has come; 0: none.
int received_signal() {
  for (const Signal& signal : kSignals) {
    if (came[place_of(signal.number)] != 0) return signal.number;
  }
  return 0;
}

void remember(int number) {
  came[place_of(number)] = 1;
  tell_of_signal();
}

void catch_signal(int number) {
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;  // reads and writes under way continue
  sigemptyset(&action.sa_mask);
  const std::size_t place = place_of(number);
  sigaction(number, &action, caught[place] ? nullptr : &before[place]);
  caught[place] = true;
}

/// Gives the signal its earlier meaning, such as to be ignored; one that has come takes that effect now.
void let_go(int number) {
  const std::size_t place = place_of(number);
  if (!std::exchange(caught[place], false)) return;
  sigaction(number, &before[place], nullptr);
  if (came[place] == 0) return;
  came[place] = 0;
  static_cast<void>(std::raise(number));
}

std::vector<int> numbers_of(const std::vector<std::string>& names) {
  std::vector<int> numbers;
  numbers.reserve(names.size());
  for (const std::string& name : names) numbers.push_back(std::ranges::find(kSignals, name, &Signal::name)->number);
  return numbers;
}

/// hold_stop_signals() may have caught more than `wanted`.
void let_go_of_all_but(const std::vector<int>& wanted) {
  for (const Signal& signal : kSignals) {
    if (std::ranges::find(wanted, signal.number) == wanted.end()) let_go(signal.number);
  }
}

/// Close enough to the start of the process, by which a job's time limit is counted.
const auto kProcessStart = base::Clock::now();

double minutes_since_start() {
  return std::chrono::duration<double, std::ratio<60>>(base::Clock::now() - kProcessStart).count();
}

}  // namespace

void describe(config::Section& section, FaultConfig& c) {
  section
      .key("init_timeout_s", c.init_timeout_s,
           "Longest seconds for which a rank gets nothing done between MPI's start and the first step, where reading, "
           "writing and building the model are progress; then the job ends with exit code 5. 0: no limit, also below.",
           {.min = 0.0})
      .key("step_timeout_s", c.step_timeout_s,
           "Longest seconds for each part of a step (images, model, gradients, update), or a sampler's step.",
           {.min = 0.0})
      .key("checkpoint_timeout_s", c.checkpoint_timeout_s,
           "Longest time in seconds for writing a checkpoint, or the model.", {.min = 0.0})
      .key("validation_timeout_s", c.validation_timeout_s, "Longest seconds for each batch of a validation.",
           {.min = 0.0})
      .key("stop_signals", c.stop_signals,
           fmt::format("Signals ({}) after which the run writes a checkpoint and ends with exit code 75; the same "
                       "command continues.",
                       fmt::join(signal_names(), ", ")))
      .key("max_minutes", c.max_minutes,
           "Minutes after which this start saves and ends with exit code 75; 0: no limit.", {.min = 0.0})
      .key("skip_nonfinite", c.skip_nonfinite,
           "Without fp16: how many steps in a row are skipped for a gradient that is not finite; one more ends the run "
           "with exit code 6.",
           {.min = 0})
      .key("compare_replicas_every", c.compare_replicas_every,
           "Steps between comparisons of what ranks should hold alike; a rank that differs is named, and ends the run "
           "with exit code 6. 0: never.",
           {.min = 0})
      .key(
          "max_starts_without_progress", c.max_starts_without_progress,
          "How often a run may start from one step without reaching the next checkpoint; after that it is refused with "
          "exit code 5, which ends requeueing. 0: no limit.",
          {.min = 0});
}

void validate(const FaultConfig& c) {
  for (const std::string& name : c.stop_signals) {
    if (std::ranges::find(kSignals, name, &Signal::name) != kSignals.end()) continue;
    auto known = signal_names();
    std::ranges::sort(known);
    throw base::ConfigError("fault.stop_signals holds \"{}\"; wanted: any of {}", name, fmt::join(known, ", "));
  }
}

std::vector<std::string> usual_stop_signals() {
  std::vector<std::string> names;
  for (const Signal& signal : kSignals) {
    if (signal.usual) names.emplace_back(signal.name);
  }
  return names;
}

comm::Phase phase_of(engine::RunPhase phase, const FaultConfig& c) {
  const auto step = [&c](const char* name) {
    return comm::Phase{.name = name, .deadline_s = c.step_timeout_s, .key = "fault.step_timeout_s"};
  };
  const auto writing = [&c](const char* name) {
    return comm::Phase{.name = name, .deadline_s = c.checkpoint_timeout_s, .key = "fault.checkpoint_timeout_s"};
  };
  switch (phase) {
    case engine::RunPhase::start:
      return {.name = "starting", .deadline_s = c.init_timeout_s, .key = "fault.init_timeout_s", .by_progress = true};
    case engine::RunPhase::images:
      return step("reading images");
    case engine::RunPhase::model:
      return step("forward and backward");
    case engine::RunPhase::gradients:
      return step("summing gradients");
    case engine::RunPhase::update:
      return step("the update");
    case engine::RunPhase::samples:
      return step("drawing samples");
    case engine::RunPhase::checkpoint:
      return writing("the checkpoint");
    case engine::RunPhase::finish:
      return writing("writing the model");
    case engine::RunPhase::validation:
      break;
  }
  return {.name = "validation", .deadline_s = c.validation_timeout_s, .key = "fault.validation_timeout_s"};
}

void hold_stop_signals() {
  for (const Signal& signal : kSignals) {
    if (signal.usual) catch_signal(signal.number);
  }
}

std::string received_stop_signal() {
  const int number = received_signal();
  return number == 0 ? "" : signal_name(number);
}

void release_stop_signals() { let_go_of_all_but({}); }

StopRequest::StopRequest(const FaultConfig& config) : max_minutes_(config.max_minutes) {
  signals_ = numbers_of(config.stop_signals);
  for (const int number : signals_) catch_signal(number);
  let_go_of_all_but(signals_);
}

StopRequest::~StopRequest() {
  const bool answered = received_signal() != 0;
  for (const int number : signals_) {
    if (answered) {
      caught[place_of(number)] = false;
      static_cast<void>(std::signal(number, SIG_IGN));
    } else {
      let_go(number);
    }
  }
}

StopRequest::Votes StopRequest::votes() const {
  const bool late = max_minutes_ > 0.0 && minutes_since_start() >= max_minutes_;
  return {received_signal() != 0 ? 1.0 : 0.0, late ? 1.0 : 0.0};
}

bool StopRequest::decide(std::span<const double, kVotes> sums) {
  if (!decided_) by_signal_ = sums[0] > 0.0;
  decided_ = decided_ || sums[0] > 0.0 || sums[1] > 0.0;
  return decided_;
}

bool StopRequest::ask(comm::Communicator& world) {
  Votes sums = votes();
  comm::all_reduce(world, sums, comm::ReduceOp::sum);
  return decide(sums);
}

std::string StopRequest::reason() const {
  if (!by_signal_) return fmt::format("fault.max_minutes = {:g}", max_minutes_);
  const int number = received_signal();
  return number != 0 ? signal_name(number) : std::string("a signal to another rank");
}

}  // namespace ddpm::run
