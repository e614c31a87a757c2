#include "denoise/recorded_fields.h"

#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
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

std::vector<data::Field> fields_of_others(const base::Path& run, const std::string& resume,
                                          const data::DatasetInfo& info, const run::Runtime& runtime) {
  comm::Communicator& world = runtime.session.world();
  const std::string text =
      comm::agree_on_root(world, [&] { return run::state_of_other_images(runtime.files, run, resume); });
  if (text.empty() || !holds_image_record(base::Json::parse(text))) return {};
  const ImageRecord record = read_image_record(base::Json::parse(text), run.string());
  std::vector<data::Field> fields = record.fields;
  if (fields.empty()) fields = data::image_fields(info.image(), record.normalization, /*has_labels=*/false);
  comm::agree(world, [&] {
    for (const data::Field& field : info.fields) {
      const data::Field* known = field_of(fields, field.role);
      if (known == nullptr && field.variables.empty()) continue;
      if (known != nullptr && known->variables.size() == field.variables.size()) continue;
      throw base::OutputError("{}: its fields are others than those that the run was trained on: {} of role {}",
                              run.string(), base::counted(std::ssize(field.variables), "variable"),
                              base::name_of(field.role));
    }
  });
  runtime.log.info("fields are transformed as the run has recorded it");
  return fields;
}

}  // namespace ddpm::denoise
