#include "denoise/recorded_fields.h"

#include "comm/collectives.h"
#include "denoise/image_record.h"
#include "run/resume.h"

namespace ddpm::denoise {

std::vector<data::Field> recorded_fields(const base::Path& run, const std::string& content_hash,
                                         const run::Runtime& runtime) {
  const std::string state =
      comm::agree_on_root(runtime.session.world(), [&] { return run::newest_state(runtime.files, run, content_hash); });
  if (state.empty() || !holds_image_record(base::Json::parse(state))) return {};
  std::vector<data::Field> fields = read_image_record(base::Json::parse(state), run.string()).fields;
  if (fields.empty()) return {};
  runtime.log.info("fields are transformed as the newest checkpoint of {} recorded it", run.string());
  return fields;
}

}  // namespace ddpm::denoise
