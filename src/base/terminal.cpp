#include "base/terminal.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parent_launcher.h"

namespace ddpm::base {
namespace {

/// Whether mpirun was told to change what it passes on: a bar that redraws itself would be torn.
bool changes_output(const std::string& process) {
  constexpr std::array<std::string_view, 6> kOptions = {"tag-output", "timestamp-output",      "xml", "output-filename",
                                                        "xterm",      "merge-stderr-to-stdout"};
  std::ifstream file(process + "/cmdline");
  for (std::string word; std::getline(file, word, '\0');) {
    const std::size_t begin = word.find_first_not_of('-');  // mpirun takes its options with one dash, too
    if (begin == 0 || begin == std::string::npos) continue;
    if (std::ranges::find(kOptions, std::string_view(word).substr(begin)) != kOptions.end()) return true;
  }
  return false;
}

bool launcher_shows_terminal(const ParentLauncher& launcher) {
  // A daemon's stderr is not the one that its mpirun shows.
  if (launcher.is_daemon) return false;
  const std::string process = "/proc/" + std::to_string(launcher.pid);
  const std::string path = process + "/fd/2";
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISCHR(status.st_mode)) return false;
  const int fd = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const bool terminal = isatty(fd) == 1;
  ::close(fd);
  return terminal && !changes_output(process);
}

}  // namespace

bool stderr_is_terminal() {
  if (isatty(STDERR_FILENO) == 1) return true;
  const auto launcher = parent_launcher();
  return launcher && launcher_shows_terminal(*launcher);
}

}  // namespace ddpm::base
