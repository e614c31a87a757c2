#include "train/trace_file.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json.h"
#include "comm/clock_offset.h"
#include "comm/collectives.h"
#include "comm/message_tags.h"

namespace ddpm::train {
namespace {

constexpr std::array kTrackNames = {"step", "phases", "transfers"};

comm::Buffer buffer_of(double& number) { return {&number, 1, base::DType::f64}; }

std::string name_event(int rank, const char* what, std::size_t thread, const std::string& name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what, rank, thread,
                     base::Json(name).dump());
}

/// The events of this rank, one a line. `origin`: when the timeline begins, by rank 0's clock.
std::string events_of(const std::vector<base::Trace::Span>& spans, int rank, const std::string& node, double offset,
                      double origin) {
  std::string text = name_event(rank, "process_name", 0, fmt::format("rank {} on {}", rank, node));
  for (std::size_t track = 0; track < kTrackNames.size(); ++track)
    text += ",\n" + name_event(rank, "thread_name", track, kTrackNames[track]);
  std::size_t number = 0;
  for (const base::Trace::Span& span : spans) {
    const double begin = (span.begin + offset - origin) * 1e6;
    const double length = (span.end - span.begin) * 1e6;
    const auto track = static_cast<std::size_t>(span.track);
    const std::string common = fmt::format(R"("name":{},"cat":"{}","pid":{},"tid":{})", base::Json(span.name).dump(),
                                           kTrackNames[track], rank, track);
    if (span.track != base::Trace::Track::transfers) {
      text += fmt::format(",\n{{{},\"ph\":\"X\",\"ts\":{:.3f},\"dur\":{:.3f}}}", common, begin, length);
      continue;
    }
    // Transfers may overlap each other, so they are asynchronous events, each of its own id.
    const std::string id = fmt::format("{}-{}", rank, number++);
    text += fmt::format(",\n{{{},\"ph\":\"b\",\"id\":\"{}\",\"ts\":{:.3f}}}", common, id, begin);
    text += fmt::format(",\n{{{},\"ph\":\"e\",\"id\":\"{}\",\"ts\":{:.3f}}}", common, id, begin + length);
  }
  return text;
}

/// Sends `text` to rank 0.
void send_text(comm::Communicator& world, const std::string& text) {
  auto length = static_cast<double>(text.size());
  world.send(buffer_of(length), 0, comm::tags::kTraceBytes).wait();
  world.send({text.data(), static_cast<int64_t>(text.size()), base::DType::u8}, 0, comm::tags::kTraceEvents).wait();
}

std::string receive_text(comm::Communicator& world, int rank) {
  double length = 0.0;
  world.receive(buffer_of(length), rank, comm::tags::kTraceBytes).wait();
  std::string text(static_cast<std::size_t>(length), ' ');
  world.receive({text.data(), static_cast<int64_t>(text.size()), base::DType::u8}, rank, comm::tags::kTraceEvents)
      .wait();
  return text;
}

}  // namespace

void write_trace(base::FileSystem& files, const base::Path& path, base::Trace& trace, comm::MpiSession& session) {
  comm::Communicator& world = session.world();
  const auto clocks = comm::measure_clocks(world, base::steady_seconds);
  const double offset = -clocks[static_cast<std::size_t>(world.rank())].offset_s;
  double origin = trace.began();
  world.broadcast(buffer_of(origin), 0).wait();
  const std::string own = events_of(trace.take(), world.rank(), session.node_name(), offset, origin);
  if (world.rank() != 0) send_text(world, own);
  std::optional<base::OutputError> failure;  // thrown when every rank has sent its events
  const auto attempt = [&failure](const auto& work) {
    if (failure) return;
    try {
      work();
    } catch (const base::OutputError& error) {
      failure = error;
    }
  };
  std::optional<base::StagedPath> staged;
  std::unique_ptr<base::WritableFile> file;
  if (world.rank() == 0) {
    attempt([&] {
      files.create_directories(path.parent_path());
      staged.emplace(files, path);
      file = files.create_exclusive(staged->path());
      file->write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + own);
    });
  }
  for (int rank = 1; world.rank() == 0 && rank < world.size(); ++rank) {
    const std::string events = receive_text(world, rank);
    attempt([&] { file->write(",\n" + events); });
  }
  comm::do_on_root(world, [&] {
    if (failure) throw base::OutputError(*failure);
    file->write("\n]}\n");
    file->sync();
    file->close();
    staged->publish();
  });
}

}  // namespace ddpm::train
