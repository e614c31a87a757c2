// Every operation on the memory of a device that the host cannot read, beside the same on host memory.
#include "comm/staged_communicator.h"

#include <array>
#include <cstring>

#include <gtest/gtest.h>

#include "comm/solo_communicator.h"
#include "comm/typed_values.h"
#include "support/mpi_test.h"

namespace ddpm::comm {
namespace {

using base::DType;
using test::kAllDTypes;
using test::TypedValues;
using test::values_of;
using test::world;

/// Addresses of this device are those of the host with a bit turned, which no process may read.
void* turned(const void* address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): no pointer into an object leads there
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) ^ (uintptr_t{1} << 62));
}
Buffer on_device(Buffer buffer) { return {turned(buffer.data), buffer.count, buffer.dtype}; }

class FakeMemory final : public DeviceMemory {
 public:
  void finish() override { ++finished; }
  void read(const void* device, std::span<std::byte> host) override {
    if (!host.empty()) std::memcpy(host.data(), turned(device), host.size());
  }
  void write(std::span<const std::byte> host, void* device) override {
    if (!host.empty()) std::memcpy(turned(device), host.data(), host.size());
  }
  [[nodiscard]] std::unique_ptr<Communicator> alone() override { return std::make_unique<SoloCommunicator>(); }

  int finished = 0;
};

class Staged : public testing::Test {
 protected:
  /// Calls check(dtype, count) for all dtypes and some counts.
  template <typename Check>
  static void for_all(Check check) {
    for (const DType dtype : kAllDTypes) {
      for (const int64_t count : {0, 1, 7, 101}) {
        SCOPED_TRACE(testing::Message() << base::safetensors_name(dtype) << " x " << count);
        check(dtype, count);
      }
    }
  }
  /// Its own values of `count` elements.
  static TypedValues own(DType dtype, int64_t count) { return {dtype, values_of(world().rank(), count)}; }
  static int next() { return (world().rank() + 1) % world().size(); }
  static int previous() { return (world().rank() + world().size() - 1) % world().size(); }

  std::shared_ptr<FakeMemory> memory_ = std::make_shared<FakeMemory>();
  StagedCommunicator staged_{world().duplicate(), memory_};
  int64_t ranks_ = world().size();
};

TEST_F(Staged, AllReduce) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
    for_all([&](DType dtype, int64_t count) {
      TypedValues host = own(dtype, count);
      TypedValues device = own(dtype, count);
      world().all_reduce(host.buffer(), op).wait();
      staged_.all_reduce(on_device(device.buffer()), op).wait();
      EXPECT_EQ(device.values(), host.values());
    });
  }
}

TEST_F(Staged, ReduceScatterIntoAnotherBufferAndIntoItsOwnPart) {
  for_all([&](DType dtype, int64_t count) {
    TypedValues host_in = own(dtype, count * ranks_);
    TypedValues host(dtype, count);
    TypedValues in = own(dtype, count * ranks_);
    TypedValues out(dtype, count);
    world().reduce_scatter(host_in.buffer(), host.buffer(), ReduceOp::sum).wait();
    staged_.reduce_scatter(on_device(in.buffer()), on_device(out.buffer()), ReduceOp::sum).wait();
    EXPECT_EQ(out.values(), host.values());
    EXPECT_EQ(in.values(), values_of(world().rank(), count * ranks_));
    const auto first = world().rank() * count;
    staged_.reduce_scatter(on_device(in.buffer()), on_device(in.part(first, count)), ReduceOp::sum).wait();
    const auto values = in.values();
    EXPECT_EQ(std::vector<int>(values.begin() + first, values.begin() + first + count), host.values());
  });
}

TEST_F(Staged, AllGatherFromAnotherBufferAndFromItsOwnPart) {
  for_all([&](DType dtype, int64_t count) {
    TypedValues in = own(dtype, count);
    TypedValues host(dtype, count * ranks_);
    TypedValues out(dtype, count * ranks_);
    world().all_gather(in.buffer(), host.buffer()).wait();
    staged_.all_gather(on_device(in.buffer()), on_device(out.buffer())).wait();
    EXPECT_EQ(out.values(), host.values());
    TypedValues own_part(dtype, count * ranks_);
    const Buffer part = own_part.part(world().rank() * count, count);
    if (count > 0) std::memcpy(part.data, in.buffer().data, static_cast<std::size_t>(count) * base::size_of(dtype));
    staged_.all_gather(on_device(part), on_device(own_part.buffer())).wait();
    EXPECT_EQ(own_part.values(), host.values());
  });
}

TEST_F(Staged, BroadcastComesFromTheRoot) {
  const int root = static_cast<int>(ranks_) - 1;
  for_all([&](DType dtype, int64_t count) {
    TypedValues values = own(dtype, count);
    staged_.broadcast(on_device(values.buffer()), root).wait();
    EXPECT_EQ(values.values(), values_of(root, count));
  });
}

TEST_F(Staged, MessagesTravelAroundARing) {
  for_all([&](DType dtype, int64_t count) {
    TypedValues out = own(dtype, count);
    TypedValues in(dtype, count);
    Work received = staged_.receive(on_device(in.buffer()), previous(), 5);
    staged_.send(on_device(out.buffer()), next(), 5).wait();
    received.wait();
    EXPECT_EQ(in.values(), values_of(previous(), count));
    TypedValues again(dtype, count);
    const std::array messages = {Outgoing{on_device(out.buffer()), next(), 6}};
    const std::array answers = {Incoming{on_device(again.buffer()), previous(), 6}};
    staged_.exchange(messages, answers).wait();
    EXPECT_EQ(again.values(), values_of(previous(), count));
  });
}

TEST_F(Staged, WhatIsTestedUntilItIsDoneHasArrived) {
  TypedValues values = own(DType::f32, 33);
  TypedValues host = own(DType::f32, 33);
  Work work = staged_.all_reduce(on_device(values.buffer()), ReduceOp::sum);
  while (!work.test()) {
  }
  world().all_reduce(host.buffer(), ReduceOp::sum).wait();
  EXPECT_EQ(values.values(), host.values());
}

TEST_F(Staged, EachOperationFirstWaitsForTheDevice) {
  TypedValues values = own(DType::f32, 1);
  const int before = memory_->finished;
  staged_.all_reduce(on_device(values.buffer()), ReduceOp::sum).wait();
  staged_.barrier().wait();
  EXPECT_EQ(memory_->finished, before + 2);
}

TEST_F(Staged, PartsAndCopiesUseTheSameMemory) {
  const auto half = staged_.split(world().rank() % 2, world().rank());
  EXPECT_EQ(half->size(), (ranks_ + 1 - world().rank() % 2) / 2);
  const auto same = staged_.duplicate();
  for (Communicator* comm : {half.get(), same.get()}) {
    TypedValues ones(DType::i32, std::vector<int>{1, 1});
    comm->all_reduce(on_device(ones.buffer()), ReduceOp::sum).wait();
    EXPECT_EQ(ones.values(), std::vector<int>(2, comm->size()));
  }
  EXPECT_EQ(staged_.alone()->size(), 1);
}

}  // namespace
}  // namespace ddpm::comm
