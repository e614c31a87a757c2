#include "train/profiler.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/clock.h"
#include "train/trace_file.h"

namespace ddpm::train {
namespace {

/// The first steps of a start allocate memory, and choose algorithms.
constexpr int64_t kWarmSteps = 2;

}  // namespace

Profiler::Profiler(DenoisingStep& step, run::RunFolder& folder, run::Supervision& supervision,
                   const run::Runtime& runtime)
    : step_(step), folder_(folder), supervision_(supervision), runtime_(runtime) {}

void Profiler::begin(int64_t step, int64_t total) {
  if (!runtime_.profile || step >= total) return;
  profiled_ = std::min(step + kWarmSteps + 1, total);
  step_.trace(&trace_);
  supervision_.trace(&trace_);
  after(step);
}

void Profiler::run(FinishedStep& step) {
  if (step.step != profiled_) return;
  trace_.add({.name = fmt::format("step {}", step.step), .begin = trace_.began(), .end = base::steady_seconds()});
}

void Profiler::after(int64_t step) {
  if (profiled_ == 0 || step < profiled_ - 1) return;
  if (step == profiled_ - 1) return trace_.start();
  supervision_.trace_phase(std::nullopt);
  trace_.stop();
  step_.trace(nullptr);
  supervision_.trace(nullptr);
  profiled_ = 0;
  const base::Path path = folder_.profiles() / fmt::format("step-{:08}.json", step);
  write_trace(runtime_.files, path, trace_, runtime_.session);
  runtime_.log.info("the timeline of step {} is in {}: open it with ui.perfetto.dev", step, path.string());
}

}  // namespace ddpm::train
