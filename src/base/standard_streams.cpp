#include "base/standard_streams.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/error.h"

namespace ddpm::base {
namespace {

sigset_t only_sigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

bool sigpipe_is_ignored() {
  struct sigaction action {};
  return sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

[[noreturn]] void refuse(int code, std::size_t written, std::size_t total) {
  throw OutputError("standard output: cannot write: {}, after {} of {} bytes", std::strerror(code), written, total);
}

/// A terminal or pipe whose other user made it non-blocking.
void wait_until_writable() {
  struct pollfd stream {
    STDOUT_FILENO, POLLOUT, 0
  };
  static_cast<void>(poll(&stream, 1, -1));
}

}  // namespace

void reserve_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is this one. Open for the wrong direction, its use fails with EBADF; messages for a stderr
    // that nobody wants are dropped.
    if (open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_WRONLY) == -1) return;
  }
}

void write_standard_output(std::string_view text) {
  const sigset_t sigpipe = only_sigpipe();
  pthread_sigmask(SIG_BLOCK, &sigpipe, nullptr);  // stays blocked, so that a pending one waits for main()'s end
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = write(STDOUT_FILENO, text.data() + written, text.size() - written);
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      wait_until_writable();
    } else if (errno == EPIPE && !sigpipe_is_ignored()) {
      return;
    } else if (errno != EINTR) {
      refuse(errno, written, text.size());
    }
  }
  // A network file system tells of a full disk or quota when a descriptor is closed.
  const int copy = dup(STDOUT_FILENO);
  if (copy == -1 || close(copy) != 0) refuse(errno, text.size(), text.size());
}

void end_if_reader_left() {
  const sigset_t sigpipe = only_sigpipe();
  pthread_sigmask(SIG_UNBLOCK, &sigpipe, nullptr);
}

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

}  // namespace ddpm::base
