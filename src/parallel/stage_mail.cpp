#include "parallel/stage_mail.h"

#include <utility>

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "comm/message_tags.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::parallel {
namespace {

constexpr int64_t kNothing = -1;  // Before all numbers of transfers: it is waited for already.

}  // namespace

StageMail::StageMail(comm::Communicator& ranks, at::Device device) {
  for (int stage = 0; stage < ranks.size(); ++stage) {
    // Never blocking: stages send to each other at the same time.
    to_.push_back({ranks.duplicate(), std::make_unique<TransferQueue>(queue_mode(/*overlap=*/true, device))});
  }
  own_ = &to_[static_cast<std::size_t>(ranks.rank())];
  if (!device.is_cpu()) connect(ranks.rank(), device);
}

void StageMail::connect(int own, at::Device device) {
  const at::Tensor bytes = at::zeros({std::ssize(to_)}, at::TensorOptions(at::kByte).device(device));
  const auto byte_of = [&](int stage) { return bytes.narrow(0, stage, 1); };
  for (int to = 0; std::cmp_less(to, to_.size()); ++to) {
    std::vector<comm::Outgoing> out;
    std::vector<comm::Incoming> in;
    for (int from = 0; std::cmp_less(from, to_.size()); ++from) {
      if (from == to) continue;
      if (own == to) in.push_back({message_into(byte_of(from)), from, comm::tags::kConnect});
      if (own == from) out.push_back({message_of(byte_of(from)), to, comm::tags::kConnect});
    }
    to_[static_cast<std::size_t>(to)].ranks->exchange(out, in).wait();
  }
}

void StageMail::send(std::span<const StageMessage> messages, int tag) {
  for (std::size_t stage = 0; stage < to_.size(); ++stage) {
    const Way& way = to_[stage];
    way.queue->forget_complete();
    std::vector<comm::Outgoing> out;
    std::vector<at::Tensor> kept;
    for (const StageMessage& message : messages) {
      if (std::cmp_not_equal(message.stage, stage)) continue;
      out.push_back({message_of(message.tensor), static_cast<int>(stage), tag});
      kept.push_back(message.tensor);
    }
    if (out.empty()) continue;
    const auto start = [ranks = way.ranks.get(), out = std::move(out), kept = std::move(kept)] {
      return ranks->exchange(out, {});
    };
    way.queue->push({.stages = {start}, .finish = {}, .name = fmt::format("to stage {}", stage)});
  }
}

int64_t StageMail::receive(std::span<const StageMessage> messages, int tag) {
  std::vector<comm::Incoming> in;
  std::vector<at::Tensor> kept;
  for (const StageMessage& message : messages) {
    in.push_back({message_into(message.tensor), static_cast<int>(message.stage), tag});
    kept.push_back(message.tensor);
  }
  if (in.empty()) return kNothing;
  const auto start = [ranks = own_->ranks.get(), in = std::move(in), kept = std::move(kept)] {
    return ranks->exchange({}, in);
  };
  return own_->queue->push({.stages = {start}, .finish = {}, .name = "from other stages"});
}

void StageMail::wait_for(int64_t number) { own_->queue->wait_for(number); }

void StageMail::drain() {
  for (Way& way : to_) way.queue->drain();
}

double StageMail::take_exposed_seconds() {
  double seconds = 0.0;
  for (Way& way : to_) seconds += way.queue->take_exposed_seconds();
  return seconds;
}

void StageMail::trace(base::Trace* trace) {
  for (Way& way : to_) way.queue->trace(trace);
}

}  // namespace ddpm::parallel
