#include "train/dataset_batches.h"

#include "base/check.h"

namespace ddpm::train {

DatasetBatches::DatasetBatches(ModelTrainer& trainer, const data::Dataset& dataset,
                               const DatasetBatchesOptions& options)
    : trainer_(trainer),
      dataset_(dataset),
      options_(options),
      order_(dataset.parts(), static_cast<uint64_t>(trainer.config().run.seed), options.order),
      inputs_(dataset, /*positions=*/false, trainer.device()),
      feeder_(dataset.fields(), trainer.device()) {}

denoise::ModelBatch DatasetBatches::next(const MicroBatchPosition& position) {
  if (!loader_) {
    loader_.emplace(dataset_, order_,
                    data::BatchLoaderOptions{.layout = trainer_.placement().layout,
                                             .rank = trainer_.placement().data_parallel_rank(),
                                             .first_step = position.step,
                                             .end_step = trainer_.config().steps,
                                             .prefetch = options_.prefetch});
  }
  const double waited = loader_->seconds_waited();
  const denoise::StoredBatch stored = feeder_.next(*loader_);
  trainer_.waited_for_data(loader_->seconds_waited() - waited);
  DDPM_CHECK(stored.step == position.step && stored.positions.begin == position.first,
             "the batch of step {}, position {} was asked for, but the next one is that of step {}, position {}",
             position.step, position.first, stored.step, stored.positions.begin);
  denoise::ModelBatch batch = inputs_.batch(stored, options_.augmentation);
  feeder_.read_ahead(*loader_);
  return batch;
}

}  // namespace ddpm::train
