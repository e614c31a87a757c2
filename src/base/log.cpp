#include "base/log.h"

#include <cstdio>
#include <string>

#include "base/status_line.h"
#include "base/utf8.h"

namespace ddpm::base {
namespace {

// Names and texts from files end up in messages: what a terminal would take for a command is spelt out, as are bytes of
// no character, and the end of a line, which would make two messages of one.
std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.front() == '\n') {
      out += "\\n";
    } else if (const std::size_t size = utf8_size(rest);
               size > 0 && (rest.front() == '\t' || !begins_with_control(rest))) {
      out += rest.substr(0, size);
      i += size - 1;
    } else {
      if (size > 0) i += size - 1;  // for U+0080 to U+009F the second byte is the character's number
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    }
  }
  return out;
}

// One call per line: lines of several ranks that share a terminal or a file stay whole.
void put_line(const std::string& text) {
  const std::string line = (take_status_line(stderr) ? kClearLine : "") + printable(text) + '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void Logger::listen(LogListener* listener) const {
  const std::lock_guard lock(shared_->mutex);  // a message on its way to the listener before has arrived
  shared_->listener = listener;
}

void Logger::tell(std::string_view level, std::string_view message) const {
  if (!heard()) return;
  const std::lock_guard lock(shared_->mutex);
  LogListener* listener = shared_->listener;
  if (listener != nullptr) listener->take(level, printable(message));
}

void Logger::write(std::string_view level, std::string_view message) const {
  tell(level, message);
  if (rank_ == 0 && !shared_->hushed)
    put_line(fmt::format("ddpm: {}{}", level == "warning" ? "warning: " : "", message));
}

void Logger::write_error(std::string_view message) const {
  const std::string where = world_size_ > 1 ? fmt::format("rank {} on {}: ", rank_, node_) : "";
  tell("error", message);
  put_line(fmt::format("ddpm: error: {}{}", where, message));
}

}  // namespace ddpm::base
