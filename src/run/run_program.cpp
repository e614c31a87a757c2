#include "run/run_program.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/standard_streams.h"
#include "comm/collectives.h"
#include "comm/deadline.h"
#include "comm/launch.h"
#include "comm/start_deadline.h"
#include "comm/watchdog.h"
#include "device/device_library.h"
#include "device/steady_products.h"
#include "device/threads.h"
#include "run/fault.h"

namespace ddpm::run {
namespace {

/// The rank whose error is said ends all others long before that, unless it has died.
constexpr auto kTimeToBeEnded = std::chrono::seconds(30);
/// What ranks find when another one leaves comes later than its own error, which is the one to be said.
constexpr auto kTimeForTheCause = std::chrono::seconds(2);
/// Seconds for MPI's end, once all ranks have come to it, where no shorter time was given for its start.
constexpr double kLongestEnd = 120.0;

/// Whether an error of LibTorch's or of C++ says that an allocation failed.
bool is_out_of_memory(const std::string& what) {
  return what.find("not enough memory") != std::string::npos || what.find("out of memory") != std::string::npos ||
         what.find("can't allocate memory") != std::string::npos || what.find("bad_alloc") != std::string::npos;
}

/// What went wrong, for people: LibTorch appends where it was raised and its call stack, on further lines, and begins
/// with a place in its sources where memory ran out.
std::string explain(base::ExitCode code, const std::string& what) {
  if (code != base::ExitCode::bug) return what;
  std::string first = what.substr(0, what.find('\n'));
  if (!is_out_of_memory(first)) return first;
  const std::size_t size = first.find("ried to allocate ");  // the first word of a sentence, or not
  const std::string asked = size == std::string::npos ? "" : fmt::format(" (LibTorch t{})", first.substr(size));
  return fmt::format(
      "not enough memory{}; wanted: smaller batches or images, activations that are computed again, or more ranks: "
      "`ddpm plan` says what is needed",
      asked);
}

/// MPI's end, which some networks' libraries never come to. The run's work is done: its result is the process's, too.
void finalize(comm::MpiSession& session, const base::Logger& log, base::ExitCode code, double start_seconds) {
  std::optional<comm::Deadline> deadline;
  if (start_seconds > 0.0) {
    const double seconds = std::min(start_seconds, kLongestEnd);
    deadline.emplace(seconds, [&log, code, seconds] {
      log.warn("MPI has not ended within {:g} s; all work is done, so this process ends without it", seconds);
      std::_Exit(static_cast<int>(code));
    });
  }
  session.finalize();
}

/// The end that all ranks come to with `code`. Where it fails for this one, the others may wait: it ends them.
int end_together(comm::MpiSession& session, std::optional<comm::Watchdog>& watchdog, const base::Logger& log,
                 base::ExitCode code, double start_seconds) {
  try {
    if (watchdog) watchdog->finish();
    watchdog.reset();
    finalize(session, log, code, start_seconds);
    return static_cast<int>(code);
  } catch (const base::Error& error) {
    log.error("{}", error.what());
    const int known = static_cast<int>(code == base::ExitCode::done ? error.code() : code);
    if (session.size() == 1) return known;
    session.abort(known);
  }
}

/// An error that one rank alone has.
struct OwnError {
  base::ExitCode code = base::ExitCode::bug;
  std::string what;
  bool typed = false;  ///< a base::Error, after which a rank without others comes to its usual end
};

/// The error that is being handled.
OwnError own_error() {
  try {
    throw;
  } catch (const base::Error& error) {
    return {.code = error.code(), .what = error.what(), .typed = true};
  } catch (const std::exception& error) {
    return {.what = explain(base::ExitCode::bug, error.what())};
  } catch (...) {
    return {.what = "something was thrown that is not a std::exception"};
  }
}

/// Ends all ranks, of which there are several, after `last`, for an error that this one has. Others may have the same,
/// or one that comes of it: one is said.
[[noreturn]] void end_all(comm::MpiSession& session, std::optional<comm::Watchdog>& watchdog, const base::Logger& log,
                          const OwnError& error, const std::function<void()>& last) {
  if (watchdog) {
    if (error.code == base::ExitCode::communication) std::this_thread::sleep_for(kTimeForTheCause);
    if (!watchdog->is_first_to_fail()) std::this_thread::sleep_for(kTimeToBeEnded);
  }
  log.error("{}", error.what);
  if (last) last();
  session.abort(static_cast<int>(error.code));
}

/// Every rank returns the same code where the ranks agreed on an error, and ends the whole job where one rank alone has
/// one.
int run(const std::function<void(const Runtime&)>& body, comm::MpiSession& session, const comm::StartOptions& options) {
  const base::Logger log(session.rank(), session.size(), session.node_name());
  const auto files = base::posix_file_system();
  double start_seconds = options.timeout_s;
  std::optional<comm::Watchdog> watchdog;
  const auto end = [&](base::ExitCode code) { return end_together(session, watchdog, log, code, start_seconds); };
  std::string said;
  const auto handle_own_error = [&](const std::function<void()>& last) {
    OwnError error = own_error();
    if (session.size() > 1) end_all(session, watchdog, log, error, last);
    if (std::exchange(said, error.what) != error.what) log.error("{}", error.what);
    return error;
  };
  try {
    {
      // The watchdog's own first messages may go where MPI's start sent none.
      const comm::StartDeadline still(options.timeout_s);
      comm::agree(session.world(), [&] { start_seconds = comm::StartDeadline::seconds(options.timeout_s); });
      const comm::Phase start{.name = "starting", .deadline_s = start_seconds, .key = comm::StartDeadline::kVariable};
      watchdog.emplace(session, start, log);
    }
    body(Runtime{.session = session,
                 .files = *files,
                 .log = log,
                 .watchdog = &*watchdog,
                 .end_for_own_error = handle_own_error});
    return end(base::ExitCode::done);
  } catch (const HelpGiven&) {
    return end(base::ExitCode::done);
  } catch (const Stopped&) {
    return end(base::ExitCode::stopped);
  } catch (const comm::AgreedError& error) {
    // Tasks of a launcher that started single programs are each rank 0 of 1: one of them speaks.
    const bool first = comm::launched_as_first(comm::process_environment());
    if (error.speaks() && (session.size() > 1 || first)) log.error("{}", explain(error.code(), error.what()));
    return end(error.code());
  } catch (...) {
    const OwnError error = handle_own_error({});
    if (!error.typed) session.abort(static_cast<int>(error.code));
    return end(error.code);
  }
}

}  // namespace

int run_program(int argc, char** argv, const std::function<void(const Runtime& runtime)>& body,
                const comm::StartOptions& start, CudaLibrary cuda) {
  base::reserve_standard_streams();
  base::allow_many_open_files();
  // A file that grows beyond `ulimit -f` is then an error like a full disk, not a sudden end.
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  base::outlive_readers();
  device::release_first_thread();
  device::keep_products_steady();
  device::choose_nccl_settings();
  device::choose_cublas_workspace();
  if (cuda == CudaLibrary::at_start) device::open_library_for_gpus();
  std::optional<comm::MpiSession> session;
  try {
    session.emplace(argc, argv, start);
  } catch (const base::Error& error) {  // every task returns the same code
    if (comm::launched_as_first(comm::process_environment())) std::fprintf(stderr, "ddpm: error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
  return run(body, *session, start);
}

}  // namespace ddpm::run
