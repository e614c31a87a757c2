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
constexpr const char* kLastLoss = "validation_last_loss";
constexpr const char* kLastStep = "validation_last_step";

std::optional<double> number(const base::JsonFields& fields, const char* key) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return fields.has(key) ? std::optional(fields.number(key, -kMost, kMost)) : std::nullopt;
}

}  // namespace

bool ValidationRecord::add(int64_t step, double loss, double min_delta) {
  const bool finite = std::isfinite(loss);
  last_loss = finite ? std::optional(loss) : std::nullopt;
  last_step = step;
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

std::optional<double> ValidationRecord::loss_at(int64_t step) const {
  if (step == last_step) return last_loss;
  return step == best_step ? best_loss : std::nullopt;
}

void write_validation_record(const ValidationRecord& record, base::Json& state) {
  if (record.set.empty()) return;
  state[kSet] = record.set;
  state[kWaited] = record.waited;
  if (record.improved_loss) state[kImprovedLoss] = *record.improved_loss;
  if (record.last_loss) {
    state[kLastLoss] = *record.last_loss;
    state[kLastStep] = record.last_step;
  }
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
  record.last_loss = number(fields, kLastLoss);
  if (record.last_loss) record.last_step = fields.integer(kLastStep, 0, engine::kMaxSteps);
  record.best_loss = number(fields, kBestLoss);
  if (record.best_loss) record.best_step = fields.integer(kBestStep, 0, engine::kMaxSteps);
  return record;
}

}  // namespace ddpm::train
