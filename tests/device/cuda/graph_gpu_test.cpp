// CUDA graphs as device/device_graph.h promises them, on a GPU.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include "device/device_library.h"
#include "support/cuda_library.h"

namespace ddpm::comm {
namespace {

class GraphOnAGpu : public testing::Test {
 protected:
  GraphOnAGpu()
      : library_(test::cuda_library()),
        stream_(c10::impl::VirtualGuardImpl(at::kCUDA).getStreamFromGlobalPool(gpu_, /*isHighPriority=*/false)) {}

  const at::Device gpu_{at::kCUDA, 0};
  device::DeviceLibrary library_;
  c10::StreamGuard stream_;
};

TEST_F(GraphOnAGpu, ReplaysWhatWasRecordedWithNewValues) {
  const at::Tensor in = at::full({1000}, 2.0, gpu_);
  const at::Tensor sum = at::zeros({1000}, gpu_);
  const auto graph = library_.make_graph();
  graph->record([&] { sum.add_(in * in); });
  EXPECT_EQ(sum.sum().item<float>(), 0.0F) << "recording runs nothing";
  graph->replay();
  in.fill_(3.0);
  graph->replay();
  EXPECT_EQ(sum.sum().item<float>(), 13000.0F);
}

TEST_F(GraphOnAGpu, WhatWaitsForTheDeviceCannotBeRecordedAndLeavesTheStreamUsable) {
  const at::Tensor in = at::full({1000}, 2.0, gpu_);
  const auto graph = library_.make_graph();
  EXPECT_ANY_THROW(graph->record([&] { static_cast<void>(in.sum().item<float>()); }));
  EXPECT_EQ(in.sum().item<float>(), 2000.0F);
  const at::Tensor out = at::zeros({1000}, gpu_);
  graph->record([&] { out.add_(in); });
  graph->replay();
  EXPECT_EQ(out.sum().item<float>(), 2000.0F);
}

}  // namespace
}  // namespace ddpm::comm
