#include "train/validation_record.h"

#include <cmath>
#include <limits>

#include "base/json_fields.h"
#include "engine/limits.h"

namespace ddpm::train {
namespace {

constexpr const char* kSet = "validation_set";
constexpr const char* kBestLoss = "validation_best_loss";
constexpr const char* kBestStep = "validation_best_step";
constexpr const char* kImprovedLoss = "validation_improved_loss";
constexpr const char* kWaited = "validation_waited";

std::optional<double> number(const base::JsonFields& fields, const char* key) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return fields.has(key) ? std::optional(fields.number(key, -kMost, kMost)) : std::nullopt;
}

}  // namespace

bool ValidationRecord::add(int64_t step, double loss, double min_delta) {
  const bool finite = std::isfinite(loss);
  if (finite && (!improved_loss || loss < *improved_loss - min_delta)) {
    improved_loss = loss;
    waited = 0;
  } else {
    ++waited;
  }
  if (!finite || (best_loss && loss >= *best_loss)) return false;
  best_loss = loss;
  best_step = step;
  return true;
}

void write_validation_record(const ValidationRecord& record, base::Json& state) {
  if (record.set.empty()) return;
  state[kSet] = record.set;
  state[kWaited] = record.waited;
  if (record.improved_loss) state[kImprovedLoss] = *record.improved_loss;
  if (!record.best_loss) return;
  state[kBestLoss] = *record.best_loss;
  state[kBestStep] = record.best_step;
}

ValidationRecord read_validation_record(const base::Json& state, const std::string& origin) {
  ValidationRecord record;
  if (!state.contains(kSet)) return record;
  const base::JsonFields fields(state, origin, {kSet, kWaited}, base::JsonFields::Others::ignored);
  record.set = fields.text(kSet);
  record.waited = fields.integer(kWaited, 0, engine::kMaxSteps);
  record.improved_loss = number(fields, kImprovedLoss);
  record.best_loss = number(fields, kBestLoss);
  if (record.best_loss) record.best_step = fields.integer(kBestStep, 0, engine::kMaxSteps);
  return record;
}

}  // namespace ddpm::train
