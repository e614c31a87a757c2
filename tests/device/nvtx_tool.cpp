// A tool as Nsight Systems is one: NVTX loads it where NVTX_INJECTION64_PATH names it. It writes the ranges of the
// domain "ddpm" to the file that DDPM_TEST_RANGES names, a line for each beginning ("+ name") and end ("-").
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <nvtx3/nvToolsExt.h>

namespace {

std::FILE* out() {
  static std::FILE* const kFile = std::fopen(std::getenv("DDPM_TEST_RANGES"), "a");
  return kFile;
}

nvtxDomainHandle_t create(const char* name) {
  return std::string_view(name) == "ddpm" ? reinterpret_cast<nvtxDomainHandle_t>(1) : nullptr;
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  if (domain != nullptr) std::fprintf(out(), "+ %s\n", event->message.ascii);
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  if (domain != nullptr) std::fputs("-\n", out());
  return std::fflush(out());
}

template <typename Function>
void set(NvtxFunctionTable table, unsigned place, Function function) {
  *table[place] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): NVTX looks for this name.
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  set(table, NVTX_CBID_CORE2_DomainCreateA, create);
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
