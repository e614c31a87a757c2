#include "train/training_facts.h"

#include <limits>

#include "base/error.h"
#include "base/json_fields.h"

namespace ddpm::train {
namespace {

constexpr const char* kHardware = "training_hardware";
constexpr const char* kSoftware = "training_software";
constexpr const char* kProgram = "training_program";
constexpr const char* kStatistics = "training_statistics";
constexpr const char* kCountedOver = "training_statistics_of";
constexpr uint64_t kMaxStatisticsBytes = uint64_t{64} << 20U;

interop::CardStatistics parse_statistics(const base::Json& json, const std::string& place) {
  constexpr double kMost = std::numeric_limits<double>::max();
  const base::JsonFields fields(json, place, {"channel", "mean", "deviation", "min", "max"});
  const auto number = [&](const char* key) { return fields.number(key, -kMost, kMost); };
  return {fields.text("channel"), number("mean"), number("deviation"), number("min"), number("max")};
}

}  // namespace

void write_training_facts(const TrainingFacts& facts, base::Json& state) {
  state[kHardware] = facts.hardware;
  state[kSoftware] = facts.software;
  state[kProgram] = facts.program;
  base::Json list = base::Json::array();
  for (const auto& [channel, mean, deviation, min, max] : facts.statistics) {
    list.push_back({{"channel", channel}, {"mean", mean}, {"deviation", deviation}, {"min", min}, {"max", max}});
  }
  if (list.empty()) return;
  state[kStatistics] = list.dump();
  if (!facts.counted_over.empty()) state[kCountedOver] = facts.counted_over;
}

TrainingFacts read_training_facts(const base::Json& state, const std::string& origin) {
  const base::JsonFields fields(state, origin, {}, base::JsonFields::Others::ignored);
  const auto text = [&](const char* key) { return fields.has(key) ? fields.text(key) : std::string(); };
  TrainingFacts facts{.hardware = text(kHardware), .software = text(kSoftware), .program = text(kProgram)};
  if (!fields.has(kStatistics)) return facts;
  const std::string place = origin + ": '" + kStatistics + "'";
  const base::Json list = base::parse_json_file(fields.text(kStatistics), place, kMaxStatisticsBytes);
  if (!list.is_array()) throw base::OutputError("{} is {}; a list is wanted", place, base::excerpt(list));
  for (const base::Json& item : list) facts.statistics.push_back(parse_statistics(item, place));
  facts.counted_over = text(kCountedOver);
  return facts;
}

}  // namespace ddpm::train
