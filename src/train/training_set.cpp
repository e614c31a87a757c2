#include "train/training_set.h"

#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "comm/collectives.h"
#include "denoise/image_record.h"
#include "denoise/record_difference.h"
#include "run/resume.h"
#include "run/snapshot.h"
#include "train/data_history.h"
#include "train/readable_state.h"

namespace ddpm::train {
namespace {

/// The epoch that follows the one in which a period's last image before `step` was read.
int64_t next_epoch(const DataPeriod& period, int64_t step, int64_t global_size) {
  const int64_t images = (step - period.first_step) * global_size;
  return period.first_epoch + (images + period.pass - 1) / period.pass;
}

}  // namespace

void expect_images_of(const checkpoint::Checkpoint& checkpoint, const Config& config, const data::Dataset& dataset,
                      const denoise::ImageRecord& record) {
  if (!config.data.continue_with_other) {
    return run::expect_same_images(checkpoint, dataset.content_hash(), dataset.path());
  }
  const std::string origin = run::state_origin(checkpoint);
  const denoise::ImageRecord trained = denoise::read_image_record(checkpoint.manifest.state, origin);
  if (trained.is_like(record)) return;
  const std::string differs = denoise::difference(record, trained);
  throw base::OutputError(
      "{}: the images of {} are of another kind than those that the run was trained on: size, type, fields, transforms "
      "and class names must agree{}",
      checkpoint.directory.string(), dataset.path().string(), differs.empty() ? "" : "; " + differs);
}

void TrainingSet::resume(const checkpoint::Checkpoint& checkpoint) {
  const checkpoint::Manifest& manifest = checkpoint.manifest;
  std::vector<DataPeriod>& history = task_.history;
  DataPeriod now = task_.period();
  history.back().shares.clear();  // of which an earlier version says nothing
  history.back().set_orders = data::SetOrders::alike;
  comm::agree(world_, [&] {
    auto read = read_data_history(manifest.state, run::state_origin(checkpoint));
    if (!read.empty()) history = std::move(read);
  });
  const int64_t global_size = task_.config.batch.global_size;
  const bool other = manifest.dataset_hash != now.content_hash && task_.config.data.continue_with_other;
  const bool known = !history.back().shares.empty();
  if (other || (known && history.back().shares != now.shares)) {
    history.back().content_hash = manifest.dataset_hash;  // an earlier version does not say which it was
    history.back().shares.clear();
    now.first_step = manifest.step;
    now.first_epoch = next_epoch(history.back(), manifest.step, global_size);
    log_.info("from step {} on images are those of {}, {}: epoch {} begins", manifest.step + 1,
              task_.dataset.path().string(), base::counted(now.images, "image"), now.first_epoch + 1);
    history.push_back(std::move(now));
  } else if (!known) {  // by an earlier version
    history.back().pass = now.pass;
    history.back().shares = std::move(now.shares);
  }
  task_.order.relate_sets(history.back().set_orders);
  task_.order.begin(history.back().first_step * global_size, history.back().first_epoch);
}

void TrainingSet::write(checkpoint::SaveRequest& request) {
  denoise::write_image_record(task_.image_record(), request.state);
  write_data_history(task_.history, request.state);
  request.dataset_hash = task_.dataset.content_hash();
  check_also(request, denoise::read_image_record);
  check_also(request, read_data_history);
}

}  // namespace ddpm::train
