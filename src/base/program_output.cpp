#include "base/program_output.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

namespace ddpm::base {
namespace {

struct Pipe {
  std::array<int, 2> ends = {-1, -1};
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  bool open() { return ::pipe2(ends.data(), O_CLOEXEC) == 0; }
  void close(std::size_t end) {
    if (ends.at(end) >= 0) ::close(ends.at(end));
    ends.at(end) = -1;
  }
  ~Pipe() {
    close(0);
    close(1);
  }
};

/// The child's number, or -1.
pid_t spawn(const std::vector<std::string>& words, int out) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return -1;
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  if (::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ) != 0) child = -1;
  ::posix_spawn_file_actions_destroy(&actions);
  return child;
}

/// All that comes before the other side closes; nothing when it takes too long, or is too long.
std::optional<std::string> read_all(int in, Clock::time_point end) {
  constexpr std::size_t kMost = 1U << 20U;
  std::string text;
  while (text.size() <= kMost) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    pollfd waiting{.fd = in, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return std::nullopt;
    if (ready <= 0) continue;
    std::array<char, 4096> piece{};
    const ssize_t count = ::read(in, piece.data(), piece.size());
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) return std::nullopt;
    if (count > 0) text.append(piece.data(), static_cast<std::size_t>(count));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> program_output(const std::vector<std::string>& words, std::chrono::seconds limit) {
  Pipe pipe;
  if (words.empty() || !pipe.open()) return std::nullopt;
  const pid_t child = spawn(words, pipe.ends[1]);
  if (child < 0) return std::nullopt;
  pipe.close(1);
  std::optional<std::string> text = read_all(pipe.ends[0], Clock::now() + limit);
  if (!text) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return text && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : std::nullopt;
}

}  // namespace ddpm::base
