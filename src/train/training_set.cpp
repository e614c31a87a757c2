#include "train/training_set.h"

#include "denoise/image_record.h"
#include "train/readable_state.h"

namespace ddpm::train {

void TrainingSet::write(checkpoint::SaveRequest& request) {
  denoise::write_image_record(task_.image_record(), request.state);
  request.dataset_hash = task_.dataset.content_hash();
  check_also(request, denoise::read_image_record);
}

}  // namespace ddpm::train
