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

// The streams belong to the whole process, and so does what is known of them.
bool parent_ignores_sigpipe = false;
bool reader_has_left = false;

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
    // open() returns the lowest free number, which is this one. Since it is open for the wrong direction, using it
    // fails with EBADF; messages to a closed stderr are dropped.
    if (open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_WRONLY) == -1) return;
  }
}

void outlive_readers() {
  struct sigaction before {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  if (sigaction(SIGPIPE, &ignore, &before) == 0) parent_ignores_sigpipe = before.sa_handler == SIG_IGN;
}

void write_standard_output(std::string_view text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = write(STDOUT_FILENO, text.data() + written, text.size() - written);
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      wait_until_writable();
    } else if (errno == EPIPE && !parent_ignores_sigpipe) {
      reader_has_left = true;
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
  if (!reader_has_left) return;
  static_cast<void>(std::signal(SIGPIPE, SIG_DFL));
  static_cast<void>(std::raise(SIGPIPE));
}

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

}  // namespace ddpm::base
