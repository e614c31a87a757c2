// A library that CUDA loads into a program ($CUDA_INJECTION64_PATH) to note when each kernel, copy and fill runs on the
// GPU, also inside CUDA graphs. It writes them to $KERNEL_TIMES (kernel_times.tsv), one line each:
//
//   start and end (ns of the GPU's clock), stream, 1 if a graph launched it, name
//
// kernel_times.py makes a table of them. The file is written while the program runs, since some programs end without
// calling what is registered for their end; the last tenth of a second may be missing.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <cupti.h>

namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr uint32_t kFlushMilliseconds = 100;

std::FILE* file = nullptr;
std::mutex file_mutex;

void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *max_records = 0;
}

template <typename Record>
void write(const CUpti_Activity* activity, const char* name) {
  const auto* r = reinterpret_cast<const Record*>(activity);
  std::fprintf(file, "%llu\t%llu\t%u\t%d\t%s\n", static_cast<unsigned long long>(r->start),
               static_cast<unsigned long long>(r->end), r->streamId, r->graphNodeId != 0 ? 1 : 0, name);
}

void write(const CUpti_Activity* activity) {
  switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return write<CUpti_ActivityKernel10>(activity, reinterpret_cast<const CUpti_ActivityKernel10*>(activity)->name);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return write<CUpti_ActivityMemcpy6>(activity, "copy");
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return write<CUpti_ActivityMemset4>(activity, "fill");
    default:
      return;
  }
}

void CUPTIAPI complete(CUcontext /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*size*/, size_t valid) {
  const std::lock_guard lock(file_mutex);
  CUpti_Activity* activity = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &activity) == CUPTI_SUCCESS) write(activity);
  std::fflush(file);
  std::free(buffer);
}

}  // namespace

extern "C" int InitializeInjection() {
  const char* path = std::getenv("KERNEL_TIMES");
  file = std::fopen(path != nullptr ? path : "kernel_times.tsv", "w");
  if (file == nullptr) return 0;
  cuptiActivityRegisterCallbacks(request, complete);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS)
      std::fprintf(stderr, "kernel_times: CUPTI refuses activity %d\n", kind);
  }
  cuptiActivityFlushPeriod(kFlushMilliseconds);
  std::atexit([] { cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); });
  return 1;
}
