// The device without hardware finds what it is there to find.
#include "support/fake_device.h"

#include <cmath>

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "device/copy_stream.h"

namespace ddpm::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

at::TensorOptions on_device() { return at::TensorOptions(at::kFloat).device(fake_device()); }
at::Tensor pinned(int64_t size) { return at::zeros({size}, at::TensorOptions(at::kFloat).pinned_memory(true)); }

class FakeDevice : public testing::Test {
 protected:
  ~FakeDevice() override { finish(); }
  static std::vector<std::string> faults() { return StreamOrder::instance().take_faults(); }
};

TEST_F(FakeDevice, ComputesAsTheHost) {
  const at::Tensor a = at::arange(12, at::kFloat).view({3, 4});
  const at::Tensor b = a.to(fake_device());
  EXPECT_TRUE(at::equal((b.t().matmul(b) + 1.0).to(at::kCPU), a.t().matmul(a) + 1.0));
  EXPECT_EQ(b.select(0, 1).sum().item<float>(), 22.0F);
  EXPECT_TRUE(std::isnan(at::empty({1}, on_device()).item<float>())) << "memory that nobody has written to";
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeDevice, WorkOfTwoStreamsIsOrderedByEventsAlone) {
  const at::Tensor host = pinned(4);
  const at::Tensor x = at::ones({4}, on_device());
  device::CopyStream copies(fake_device());
  copies.copy(host, x);
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("'copy to the host' of stream 1 reads what 'aten::fill_")));
  copies.after_caller();
  copies.copy(host, x);
  EXPECT_THAT(faults(), IsEmpty());
  x.fill_(2.0);
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("of stream 0 writes what 'copy to the host' of stream 1 reads")));
  copies.after_caller();
  copies.copy(host, x);
  copies.before_caller();
  x.fill_(3.0);
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeDevice, PartsOfMemoryAreApart) {
  const at::Tensor x = at::ones({8}, on_device());
  const at::Tensor host = pinned(4);
  device::CopyStream copies(fake_device());
  copies.after_caller();
  copies.copy(host, x.narrow(0, 0, 4));
  x.narrow(0, 4, 4).fill_(2.0);
  EXPECT_THAT(faults(), IsEmpty());
  x.narrow(0, 3, 4).fill_(2.0);
  EXPECT_EQ(faults().size(), 1);
}

TEST_F(FakeDevice, MemoryIsNotGivenOutAgainBeforeOthersAreDone) {
  const at::Tensor host = pinned(4);
  device::CopyStream copies(fake_device());
  for (const bool keep : {false, true}) {
    at::Tensor x = at::ones({4}, on_device());
    copies.after_caller();
    copies.copy(host, x);
    if (keep) copies.keep(x);
    x.reset();
    EXPECT_THAT(faults(), IsEmpty());
    x = at::ones({4}, on_device());
    EXPECT_EQ(faults().size(), keep ? 0 : 1);
  }
}

TEST_F(FakeDevice, CopiesArriveWhenTheHostHasWaited) {
  const at::Tensor host = pinned(4);
  const at::Tensor x = at::ones({4}, on_device());
  device::CopyStream copies(fake_device());
  copies.after_caller();
  copies.copy(host, x);
  device::CopyStream::Mark copied = copies.mark();
  EXPECT_TRUE(std::isnan(host[0].item<float>()));
  copied.wait();
  EXPECT_EQ(host[0].item<float>(), 1.0F);
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(FakeDevice, MemoryThatIsCopiedFromStaysAsItIs) {
  const at::Tensor host = pinned(4);
  const at::Tensor x = at::ones({4}, on_device());
  x.copy_(host, /*non_blocking=*/true);
  finish();
  host.fill_(1.0);
  x.copy_(host, /*non_blocking=*/true);
  EXPECT_THAT(faults(), IsEmpty());
  host.fill_(2.0);
  finish();
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("host memory has changed")));
}

TEST_F(FakeDevice, ARecordingNeitherWaitsNorReachesBeyondItself) {
  const at::Tensor x = at::ones({4}, on_device());
  const at::Tensor host = pinned(4);
  device::CopyStream copies(fake_device());
  const auto replay = [&](const std::function<void()>& work) {
    FakeGraph graph;
    graph.record(work);
    graph.replay();
    return faults();
  };
  EXPECT_THAT(replay([&] { x.add_(1.0); }), IsEmpty());
  EXPECT_THAT(replay([&] { static_cast<void>(x.sum().item<float>()); }),
              ElementsAre(HasSubstr("the host waits (item)")));
  EXPECT_THAT(replay([&] { copies.copy(host, host.to(fake_device())); }), testing::Not(IsEmpty()));
  EXPECT_THAT(replay([&] {
                copies.after_caller();
                copies.copy(host, x);
              }),
              ElementsAre(HasSubstr("stream 1 is not joined")));
  const device::CopyStream::Mark before = copies.mark_caller();
  EXPECT_THAT(replay([&] {
                copies.after_caller();
                copies.after(before);
                copies.copy(host, x);
                copies.before_caller();
              }),
              ElementsAre(HasSubstr("for an event from before the recording")));
}

}  // namespace
}  // namespace ddpm::test
