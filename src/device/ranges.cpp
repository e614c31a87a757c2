#include "device/ranges.h"

#ifdef DDPM_WITH_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace ddpm::device {

#ifdef DDPM_WITH_NVTX
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kDomain = nvtxDomainCreateA("ddpm");
  return kDomain;
}

}  // namespace

void begin_range(const char* name) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &event);
}

void end_range() { nvtxDomainRangePop(domain()); }
#else
void begin_range(const char* /*name*/) {}
void end_range() {}
#endif

}  // namespace ddpm::device
