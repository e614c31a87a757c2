// diffusion::read_scheduler on a scheduler_config.json: what is accepted is written and read back the same.
#include "diffusion/scheduler_json.h"

#include <stdexcept>

#include "base/error.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto json = ddpm::base::parse_json(ddpm::fuzz::text_of(data, size), {.max_bytes = 1U << 16U});
    constexpr std::size_t kSamplers = names_of(ddpm::diffusion::SamplerType{}).size();
    const auto sampler = static_cast<ddpm::diffusion::SamplerType>(size % kSamplers);
    const auto scheduler = ddpm::diffusion::read_scheduler(json, sampler, "scheduler_config.json");
    ddpm::fuzz::require(scheduler.num_train_timesteps > 0, "there are timesteps");
    const auto written = ddpm::diffusion::write_scheduler(scheduler);
    const auto again = ddpm::diffusion::read_scheduler(ddpm::base::Json(written), sampler, "again");
    ddpm::fuzz::require(ddpm::diffusion::write_scheduler(again) == written, "reads back the same");
  } catch (const std::invalid_argument&) {
  } catch (const ddpm::base::OutputError&) {
  }
  return 0;
}
