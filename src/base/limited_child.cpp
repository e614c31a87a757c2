#include "base/limited_child.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/pulse.h"

namespace ddpm::base {
namespace {

// What the child tells: one letter, for `error` the exit code as another character, text, and a zero byte at the end.
constexpr char kDone = 'd';
constexpr char kError = 'e';
constexpr char kNoMemory = 'm';
constexpr std::size_t kMaxReportBytes = 4096;  // a pipe takes as much without a reader

std::string report_of(const std::function<void()>& work) {
  try {
    work();
    return {kDone};
  } catch (const Error& error) {
    return std::string{kError, static_cast<char>(error.code())} + error.what();
  } catch (const std::bad_alloc&) {
    return {kNoMemory};
  } catch (const std::exception& error) {
    return std::string{kError, static_cast<char>(ExitCode::bug)} + error.what();
  }
}

void limit(int resource, uint64_t soft, uint64_t hard) {
  rlimit now{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &now) != 0) return;
  now = {std::min(soft, now.rlim_max), std::min(hard, now.rlim_max)};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &now);
}

void take_signals_by_default() {
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);  // KILL, STOP and some others refuse
  sigset_t none{};
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

/// Closes sockets, pipes and devices except `kept`: connections of MPI, and pipes whose readers wait for this process's
/// end, are the parent's alone. Regular files stay open, because HDF5 reads a file that the parent has open by the
/// parent's descriptor. No lock depends on it: the child gets none of fcntl's, and a run's LOCK is a lease.
void close_connections_but(int kept) {
  std::vector<FolderEntry> open;
  try {
    open = folder_entries("/proc/self/fd");
  } catch (const Error&) {
    return;  // nothing tells which there are: the child holds them for as long as it lives
  }
  for (const FolderEntry& entry : open) {
    const int descriptor = std::atoi(entry.name.c_str());
    struct stat status {};
    if (descriptor <= STDERR_FILENO || descriptor == kept || ::fstat(descriptor, &status) != 0) continue;
    if (!S_ISREG(status.st_mode)) ::close(descriptor);
  }
}

[[noreturn]] void run_child(pid_t parent, int out, const ChildLimits& limits, const std::function<void()>& work) {
  take_signals_by_default();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);  // a write to it fails
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  close_connections_but(out);
  const auto seconds = static_cast<uint64_t>(limits.processor_time.count());
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_FSIZE, 0, 0);
  limit(RLIMIT_CPU, seconds, seconds + 1);
  limit_memory(limits.memory_bytes);
  std::string report = report_of(work);
  report.resize(std::min(report.size(), kMaxReportBytes - 1));
  report.push_back('\0');
  const ssize_t written = ::write(out, report.data(), report.size());
  ::_exit(written == std::ssize(report) ? 0 : 1);
}

/// The child's report up to its zero byte; shorter when it ended without one, or when the time is up.
std::string read_report(int in, Clock::time_point end) {
  std::string report;
  while (!report.ends_with('\0')) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waiting{.fd = in, .events = POLLIN, .revents = 0};
    const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 1'000))) : 0;
    pulse();  // the child's time is limited
    if (ready == 0 && left <= 0) break;
    if (ready <= 0) continue;
    std::array<char, kMaxReportBytes> piece{};
    const ssize_t count = ::read(in, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    report.append(piece.data(), static_cast<std::size_t>(count));
  }
  return report;
}

/// How the child ended, as waitpid says it; 0 when another part of the program has waited for it.
int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return 0;
  }
  return status;
}

std::string end_without_report(int status, const ChildLimits& limits) {
  if (!WIFSIGNALED(status)) return "ended without a result";
  const int number = WTERMSIG(status);
  if (number == SIGXCPU) return fmt::format("took more than {} s of processor time", limits.processor_time.count());
  return fmt::format("was ended by signal {} ({})", number, ::strsignal(number));
}

std::string out_of_memory(const ChildLimits& limits) {
  return fmt::format("wanted more than {} MiB of memory", limits.memory_bytes >> 20U);
}

/// Starts the child; returns its id and the pipe that it reports to. The id is negative when it could not be started.
pid_t start(const std::array<int, 2>& ends, const ChildLimits& limits, const std::function<void()>& work) {
  const pid_t parent = ::getpid();
  sigset_t all{};
  sigset_t before{};
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // this process's handlers are not for the child
  const pid_t child = ::fork();
  if (child == 0) run_child(parent, ends[1], limits, work);
  const int reason = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
  return child;
}

}  // namespace

std::string try_in_child(const ChildLimits& limits, const std::function<void()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fmt::format("could not be started: {}", std::strerror(errno));
  const auto end = Clock::now() + limits.wall_time;
  const pid_t child = start(ends, limits, work);
  const int reason = errno;
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    return fmt::format("could not be started: {}", std::strerror(reason));
  }
  const std::string report = read_report(ends[0], end);
  ::close(ends[0]);
  const bool complete = report.ends_with('\0');
  const bool late = !complete && Clock::now() >= end;
  if (late) ::kill(child, SIGKILL);
  const int status = status_of(child);
  if (late) return fmt::format("took longer than {} s", limits.wall_time.count());
  if (!complete) return end_without_report(status, limits);
  if (report.front() == kError) {
    throw Error(static_cast<ExitCode>(report.at(1)), report.substr(2, report.size() - 3));
  }
  return report.front() == kNoMemory ? out_of_memory(limits) : "";
}

void limit_memory(uint64_t more_bytes) {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  if (pages == 0) return;  // its size is unknown: the other limits must suffice
  rlimit now{};
  if (::getrlimit(RLIMIT_AS, &now) != 0) return;
  const uint64_t present = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  limit(RLIMIT_AS, present + more_bytes, now.rlim_max);
}

}  // namespace ddpm::base
