#include "base/standard_streams.h"

#include <initializer_list>

#include <fcntl.h>
#include <unistd.h>

namespace ddpm::base {

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is that of the stream: those before it are open.
    static_cast<void>(::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY));
  }
}

}  // namespace ddpm::base
