// A manifest's `state`, as a resumed run and `ddpm sample` read it: what is accepted is within bounds, and is written
// and read back the same.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/error.h"
#include "denoise/image_record.h"
#include "engine/limits.h"
#include "engine/progress.h"
#include "fuzz/fuzz.h"
#include "train/data_history.h"
#include "train/training_facts.h"
#include "train/validation_record.h"

namespace {

using ddpm::base::Json;
using ddpm::fuzz::require;

void check_progress(const Json& state) {
  using namespace ddpm::engine;
  const Json named = state.value("step", Json());  // the manifest says the same
  const int64_t step = named.is_number_unsigned() ? named.get<int64_t>() : 0;
  const Progress progress = read_progress(state, step, "M: state");
  require(progress.step == step && step <= kMaxSteps, "the step is the checkpoint's");
  require(progress.applied_updates >= 0 && progress.applied_updates <= step, "not more updates than steps");
  require(progress.images_seen >= 0 && progress.images_seen <= INT64_MAX - kMaxBatch, "another batch can be counted");
  require(static_cast<float>(progress.scaler.scale) > 0.0F && std::isfinite(static_cast<float>(progress.scaler.scale)),
          "the scale is one of float32");
  require(to_json(read_progress(Json::parse(to_json(progress).dump()), step, "again")) == to_json(progress),
          "reads back the same");
}

void check_images(const Json& state) {
  using namespace ddpm::denoise;
  const ImageRecord image = read_image_record(state, "M: state");
  require(std::min(image.height, image.width) > 0 && std::max(image.height, image.width) <= ddpm::data::kMaxSide,
          "sides are those of images");
  require(std::isfinite(1.0F / static_cast<float>(image.normalization.scale)), "the normalization can be undone");
  Json again;
  write_image_record(image, again);
  const ImageRecord read = read_image_record(Json::parse(again.dump()), "again");
  require(read.height == image.height && read.width == image.width && read.depth == image.depth &&
              read.dtype == image.dtype && read.normalization == image.normalization &&
              read.class_names == image.class_names && read.wraps == image.wraps && read.whole == image.whole &&
              read.mask == image.mask,
          "reads back the same");
}

void check_validations(const Json& state) {
  using namespace ddpm::train;
  const ValidationRecord record = read_validation_record(state, "M: state");
  require(record.waited >= 0 && record.waited < INT64_MAX && record.best_step >= 0, "counts can grow");
  Json written = Json::object();
  write_validation_record(record, written);
  Json again = Json::object();
  write_validation_record(read_validation_record(Json::parse(written.dump()), "again"), again);
  require(again == written, "reads back the same");
}

void check_card(const Json& state) {
  using namespace ddpm::train;
  const std::vector<DataPeriod> history = read_data_history(state, "M: state");
  const TrainingFacts facts = read_training_facts(state, "M: state");
  for (const DataPeriod& period : history) require(period.images > 0 && period.first_step >= 0, "a set has images");
  for (const auto& channel : facts.statistics) require(std::isfinite(channel.mean), "statistics are numbers");
  Json written = Json::object();
  write_training_facts(facts, written);
  if (!history.empty()) write_data_history(history, written);
  const Json copy = Json::parse(written.dump(-1, ' ', false, Json::error_handler_t::replace));
  require(read_data_history(copy, "again").size() == history.size(), "as many sets are read back");
  require(read_training_facts(copy, "again").statistics.size() == facts.statistics.size(), "reads back the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Json state;
  try {
    state = ddpm::base::parse_json(ddpm::fuzz::text_of(data, size), {.max_bytes = 1U << 16U, .max_depth = 4});
  } catch (const std::invalid_argument&) {
    return 0;
  }
  for (const auto check : {check_progress, check_images, check_validations, check_card}) {
    try {
      if (state.is_object()) check(state);
    } catch (const ddpm::base::OutputError&) {
    }
  }
  return 0;
}
