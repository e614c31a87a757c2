// RUN/usage.jsonl: what a run has used of the machine, for its report and for whoever pays.
//
// Each start of the run appends a line when it begins, one at each checkpoint, and one at its end. A line counts from
// the beginning of its start, so the last line of a start says all that is known of it; a start that was killed has
// counted up to its last checkpoint. The file is a record of what was spent: steps that are computed once more after a
// kill stand in it twice.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddpm::observe {

/// What a line was written for.
enum class UsageEvent : uint8_t { begin, checkpoint, end };
constexpr auto names_of(UsageEvent /*type*/) { return std::to_array<std::string_view>({"begin", "checkpoint", "end"}); }

/// One line: where the start computes, and what it has used so far.
struct UsageLine {
  std::string start = {};  ///< tells the starts of a run apart
  UsageEvent event = UsageEvent::begin;
  double time = 0.0;      ///< seconds since 1970, by the clock of rank 0's host
  std::string host = {};  ///< name of the host that rank 0 runs on
  int64_t nodes = 1;
  int64_t ranks = 1;
  std::string device = {};       ///< "cpu" or "cuda"
  std::string device_name = {};  ///< "NVIDIA H100 80GB HBM3", or the processor's name; "" where the system has none
  int64_t devices = 0;           ///< GPUs that compute; 0 on the host
  int64_t cpus = 1;              ///< threads that compute, over all ranks
  std::string job = {};          ///< the batch system's number of the job, or ""
  int64_t from = 0;              ///< the step that the start began after
  int64_t to = 0;                ///< the step that it has reached
  int64_t total = 0;             ///< the steps of the whole run
  double seconds = 0.0;          ///< since the start's first line
  double core_seconds = 0.0;     ///< seconds × cpus
  double device_seconds = 0.0;   ///< seconds × devices
  std::optional<double> joules = {};  ///< used by all nodes; none where a node has no counter that may be read
  std::string energy_source = {};     ///< "RAPL", "NVML", "RAPL + NVML", "pm_counters", or ""
  std::string error = {};             ///< at its end, what the start failed with; "": it did not
  std::string images = {};            ///< identifies the images that it trains on; "": not known
  std::string validation = {};        ///< identifies those that it validates on; "": none, or not known
};

/// `line` as one line of JSON, without the line's end.
std::string to_json_line(const UsageLine& line);

/// What to_json_line() wrote; keys that are not known here are passed over. Throws base::OutputError, which begins with
/// `place`, for anything else.
UsageLine parse_usage_line(std::string_view text, const std::string& place);

}  // namespace ddpm::observe
