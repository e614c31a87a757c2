#include "cuda/graph.h"

#include <exception>
#include <optional>

#include <ATen/cuda/CUDAGraph.h>

namespace ddpm::cuda {
namespace {

class CudaGraph final : public comm::DeviceGraph {
 public:
  void record(const std::function<void()>& work) override {
    graph_.emplace();
    try {
      // Other threads (readers that pin memory, say) go on while this one records.
      graph_->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      record_until_end(work);
    } catch (...) {
      graph_.reset();
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
        (void)cudaGetLastError();  // a consequence of the cause
      }
      std::rethrow_exception(cause);
    }
    graph_->capture_end();
  }

  std::optional<at::cuda::CUDAGraph> graph_;
};

}  // namespace

std::unique_ptr<comm::DeviceGraph> make_graph() { return std::make_unique<CudaGraph>(); }

}  // namespace ddpm::cuda
