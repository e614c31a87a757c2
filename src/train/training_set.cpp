#include "train/training_set.h"

#include "denoise/image_record.h"
#include "train/readable_state.h"

namespace ddpm::train {

void TrainingSet::write(checkpoint::SaveRequest& request) {
  const bool labelled = !dataset_.labels().empty();
  denoise::write_image_record(denoise::ImageRecord::of(dataset_.info(), labelled, positions_), request.state);
  request.dataset_hash = dataset_.content_hash();
  check_also(request, denoise::read_image_record);
}

}  // namespace ddpm::train
