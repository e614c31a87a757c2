#include "device/cuda/graph.h"

#include <exception>
#include <optional>

#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

namespace ddpm::device::cuda {
namespace {

/// A graph cannot use memory that is cached for operations launched one by one, and LibTorch frees none during the
/// recording: without emptying the cache first, a step would have to fit twice.
void give_back_unused() {
  c10::cuda::device_synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();
}

/// Where cudaStreamBeginCapture or EndCapture fails, LibTorch's CUDAGraph leaves its allocators in recording mode, in
/// which they never free memory. This ends that mode and throws nothing.
void end_allocation(at::cuda::MempoolId_t pool) noexcept {
  try {
    const c10::DeviceIndex device = c10::cuda::current_device();
    c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool);  // throws where it has ended
    c10::cuda::CUDACachingAllocator::releasePool(device, pool);
    at::HostAllocator* host = at::getHostAllocator(at::kCUDA);
    host->end_allocate_to_pool(pool);
    host->release_pool(pool);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): nothing was left to end
  }
}

class CudaGraph final : public DeviceGraph {
 public:
  void record(const std::function<void()>& work) override {
    give_back_unused();
    const auto pool = at::cuda::graph_pool_handle();
    graph_.emplace();
    try {
      // Other threads (such as readers that pin memory) continue while this one records.
      graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      record_until_end(work);
    } catch (...) {
      end_allocation(pool);
      graph_.reset();
      give_back_unused();
      throw;
    }
  }

  void replay() override { graph_->replay(); }

 private:
  void record_until_end(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      const std::exception_ptr cause = std::current_exception();
      try {
        graph_->capture_end();  // the stream cannot be used before
      } catch (const std::exception&) {
        (void)cudaGetLastError();  // this error follows from the first one
      }
      std::rethrow_exception(cause);
    }
    graph_->capture_end();
  }

  std::optional<at::cuda::CUDAGraph> graph_;
};

}  // namespace

std::unique_ptr<DeviceGraph> make_graph() { return std::make_unique<CudaGraph>(); }

}  // namespace ddpm::device::cuda
