#include "train/training_set.h"

#include "denoise/image_record.h"
#include "train/readable_state.h"

namespace ddpm::train {

void TrainingSet::write(checkpoint::SaveRequest& request) {
  check_readable_state(request);
  const bool labelled = !dataset_.labels().empty();
  denoise::write_image_record(denoise::ImageRecord::of(dataset_.info(), labelled, positions_), request.state);
  request.dataset_hash = dataset_.content_hash();
}

}  // namespace ddpm::train
