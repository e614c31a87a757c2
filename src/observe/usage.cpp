#include "observe/usage.h"

#include "base/error.h"
#include "base/json_fields.h"
#include "base/named.h"

namespace ddpm::observe {
namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kMost = int64_t{1} << 53;
constexpr double kMostSeconds = 1e15;

UsageEvent event_of(const base::JsonFields& fields) {
  const std::string& name = fields.text("event");
  const auto event = base::find_named<UsageEvent>(name);
  if (!event) throw base::OutputError("{}: event is \"{}\"; wanted: begin, checkpoint or end", fields.place(), name);
  return *event;
}

void expect_known_format(const base::JsonFields& fields) {
  const int64_t format = fields.integer("format", 1, kMost);
  if (format == kFormat) return;
  throw base::OutputError("{}: format {}, this program reads {}: a newer ddpm wrote it", fields.place(), format,
                          kFormat);
}

}  // namespace

std::string to_json_line(const UsageLine& line) {
  const base::OrderedJson joules = line.joules ? base::OrderedJson(*line.joules) : base::OrderedJson(nullptr);
  base::OrderedJson json{{"format", kFormat},
                         {"start", line.start},
                         {"event", base::name_of(line.event)},
                         {"time", line.time},
                         {"host", line.host},
                         {"nodes", line.nodes},
                         {"ranks", line.ranks},
                         {"device", line.device},
                         {"device_name", line.device_name},
                         {"devices", line.devices},
                         {"cpus", line.cpus},
                         {"job", line.job},
                         {"from", line.from},
                         {"to", line.to},
                         {"total", line.total},
                         {"seconds", line.seconds},
                         {"core_seconds", line.core_seconds},
                         {"device_seconds", line.device_seconds},
                         {"joules", joules},
                         {"energy_source", line.energy_source}};
  if (!line.error.empty()) json["error"] = line.error;
  if (!line.images.empty()) json["images"] = line.images;
  if (!line.validation.empty()) json["validation"] = line.validation;
  return json.dump(-1, ' ', false, base::OrderedJson::error_handler_t::replace);
}

UsageLine parse_usage_line(std::string_view text, const std::string& place) {
  constexpr uint64_t kLongest = 1U << 16U;
  const base::Json json = base::parse_json_file(text, place, kLongest);
  expect_known_format(base::JsonFields(json, place, {"format"}, base::JsonFields::Others::ignored));
  const base::JsonFields fields(
      json, place, {"format", "start",       "event",        "time",           "host",   "nodes",        "ranks",
                    "device", "device_name", "devices",      "cpus",           "job",    "from",         "to",
                    "total",  "seconds",     "core_seconds", "device_seconds", "joules", "energy_source"},
      base::JsonFields::Others::ignored);
  UsageLine line{.start = fields.text("start"),
                 .event = event_of(fields),
                 .time = fields.number("time", 0.0, kMostSeconds),
                 .host = fields.text("host"),
                 .nodes = fields.integer("nodes", 1, kMost),
                 .ranks = fields.integer("ranks", 1, kMost),
                 .device = fields.text("device"),
                 .device_name = fields.text("device_name"),
                 .devices = fields.integer("devices", 0, kMost),
                 .cpus = fields.integer("cpus", 1, kMost),
                 .job = fields.text("job"),
                 .from = fields.integer("from", 0, kMost),
                 .to = fields.integer("to", 0, kMost),
                 .total = fields.integer("total", 0, kMost),
                 .seconds = fields.number("seconds", 0.0, kMostSeconds),
                 .core_seconds = fields.number("core_seconds", 0.0, kMostSeconds),
                 .device_seconds = fields.number("device_seconds", 0.0, kMostSeconds),
                 .joules = std::nullopt,
                 .energy_source = fields.text("energy_source")};
  if (fields.has("error")) line.error = fields.text("error");
  if (fields.has("images")) line.images = fields.text("images");
  if (fields.has("validation")) line.validation = fields.text("validation");
  if (!json.at("joules").is_null()) line.joules = fields.number("joules", 0.0, kMostSeconds * 1e3);
  return line;
}

}  // namespace ddpm::observe
