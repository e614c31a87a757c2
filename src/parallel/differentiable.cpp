#include "parallel/differentiable.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "comm/message_tags.h"
#include "nn/ops/remembered.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

using nn::remember;
using nn::remembered;

// Sum --------------------------------------------------------------------------------------------------------------

at::Tensor summed(const at::Tensor& x, comm::Communicator& ranks) {
  at::Tensor sum = x.clone(x.suggest_memory_format());
  ranks.all_reduce(buffer_of(sum), comm::ReduceOp::sum).wait();
  return sum;
}

struct Sum : Function<Sum> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, comm::Communicator* ranks) {
    remember(*context, ranks);
    return summed(x, *ranks);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {summed(gradients[0], *remembered<comm::Communicator*>(*context)), {}};
  }
};

struct Spread : Function<Spread> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, comm::Communicator* ranks) {
    remember(*context, ranks);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {summed(gradients[0], *remembered<comm::Communicator*>(*context)), {}};
  }
};

struct Reduce : Function<Reduce> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x, comm::Communicator* ranks) {
    return summed(x, *ranks);
  }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0], {}};
  }
};

// Gather -----------------------------------------------------------------------------------------------------------

struct GatherPlan {
  std::vector<int64_t> extents;
  comm::Communicator* ranks;

  [[nodiscard]] std::size_t here() const { return static_cast<std::size_t>(ranks->rank()); }
  [[nodiscard]] at::Tensor room(const at::Tensor& like, std::size_t rank) const {
    return at::empty({like.size(0), extents[rank], like.size(2)}, like.options());
  }
};

/// Each rank's tensors of `out` to that rank, and theirs for this one into `in`.
void trade(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in, comm::Communicator& ranks) {
  std::vector<comm::Outgoing> sends;
  std::vector<comm::Incoming> receives;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (rank == ranks.rank()) continue;
    sends.push_back({.buffer = message_of(out[static_cast<std::size_t>(rank)]), .to = rank});
    receives.push_back({.buffer = message_into(in[static_cast<std::size_t>(rank)]), .from = rank});
  }
  ranks.exchange(sends, receives).wait();
}

struct Gather : Function<Gather> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const GatherPlan& plan) {
    const at::Tensor own = x.contiguous();
    std::vector<at::Tensor> parts;
    for (std::size_t rank = 0; rank < plan.extents.size(); ++rank) {
      parts.push_back(rank == plan.here() ? own : plan.room(own, rank));
    }
    trade(std::vector<at::Tensor>(parts.size(), own), parts, *plan.ranks);
    remember(*context, plan);
    return at::cat(parts, 1);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& plan = remembered<GatherPlan>(*context);
    std::vector<at::Tensor> out;
    std::vector<at::Tensor> in;
    int64_t first = 0;
    for (const int64_t extent : plan.extents) {
      out.push_back(gradients[0].narrow(1, std::exchange(first, first + extent), extent).contiguous());
      in.push_back(plan.room(gradients[0], plan.here()));
    }
    in[plan.here()] = out[plan.here()];
    trade(out, in, *plan.ranks);
    at::Tensor sum = in.front().clone();
    for (std::size_t rank = 1; rank < in.size(); ++rank) sum.add_(in[rank]);
    return {sum, {}};
  }
};

// Margins ----------------------------------------------------------------------------------------------------------

struct MarginPlan {
  std::vector<Side> sides;
  comm::Communicator* ranks;
};

/// [N, C, axes...] as rows of channels, which a message is made of, and back.
at::Tensor packed(const at::Tensor& x) { return x.movedim(1, -1).contiguous(); }
at::Tensor unpacked(const at::Tensor& message) { return message.movedim(-1, 1); }

at::Tensor room_for(const at::Tensor& like, int64_t dim, int64_t extent) {
  std::vector<int64_t> sizes = like.sizes().vec();
  sizes[static_cast<std::size_t>(like.dim() + dim)] = extent;
  return packed(at::empty(sizes, like.options().memory_format(std::nullopt)));
}

/// Sends `to_before` and `to_after`, packed, to the neighbours, and fills the others with what they send here.
struct Messages {
  at::Tensor to_before, to_after, from_before, from_after;

  void travel(const Neighbours& neighbours, comm::Communicator& ranks) const {
    std::vector<comm::Outgoing> sends;
    std::vector<comm::Incoming> receives;
    const auto send = [&](const at::Tensor& t, int64_t rank, int tag) {
      if (rank >= 0 && t.numel() > 0) sends.push_back({message_of(t), static_cast<int>(rank), tag});
    };
    const auto receive = [&](const at::Tensor& t, int64_t rank, int tag) {
      if (rank >= 0 && t.numel() > 0) receives.push_back({message_into(t), static_cast<int>(rank), tag});
    };
    send(to_after, neighbours.after, comm::tags::kMarginForward);
    send(to_before, neighbours.before, comm::tags::kMarginBackward);
    receive(from_before, neighbours.before, comm::tags::kMarginForward);
    receive(from_after, neighbours.after, comm::tags::kMarginBackward);
    ranks.exchange(sends, receives).wait();
  }
};

/// What is its own along these sides of an x with margins.
at::Tensor own_of(at::Tensor x, std::span<const Side> sides) {
  for (const auto& [dim, margin, neighbours] : sides) {
    x = x.narrow(dim, margin.before, x.size(dim) - margin.before - margin.after);
  }
  return x;
}

/// Room for x with its margins, in the same order of memory.
at::Tensor room_around(const at::Tensor& x, std::span<const Side> sides) {
  std::vector<int64_t> sizes = x.sizes().vec();
  for (const auto& [dim, margin, neighbours] : sides) {
    const int64_t extent = x.size(dim);
    DDPM_CHECK(extent >= margin.before && extent >= margin.after,
               "a tile of {} pixels, whose neighbours want {} and {}", extent, margin.before, margin.after);
    sizes[static_cast<std::size_t>(x.dim() + dim)] += margin.before + margin.after;
  }
  return at::empty(sizes, x.options().memory_format(x.suggest_memory_format()));
}

struct WithMargins : Function<WithMargins> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const MarginPlan& plan) {
    const std::span<const Side> sides = plan.sides;
    at::Tensor wide = room_around(x, sides);
    own_of(wide, sides).copy_(x);
    for (std::size_t side = 0; side < sides.size(); ++side) {
      const auto& [dim, margin, neighbours] = sides[side];
      const at::Tensor here = own_of(wide, sides.subspan(side + 1));  // later sides send what this one receives
      const int64_t end = here.size(dim) - margin.after;
      const Messages messages{.to_before = packed(here.narrow(dim, margin.before, margin.after)),
                              .to_after = packed(here.narrow(dim, end - margin.before, margin.before)),
                              .from_before = room_for(here, dim, margin.before),
                              .from_after = room_for(here, dim, margin.after)};
      if (neighbours.before < 0) messages.from_before.zero_();
      if (neighbours.after < 0) messages.from_after.zero_();
      messages.travel(neighbours, *plan.ranks);
      here.narrow(dim, 0, margin.before).copy_(unpacked(messages.from_before));
      here.narrow(dim, end, margin.after).copy_(unpacked(messages.from_after));
    }
    remember(*context, plan);
    return wide;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& plan = remembered<MarginPlan>(*context);
    const auto order = gradients[0].suggest_memory_format();
    at::Tensor wide = gradients[0];
    for (std::size_t side = plan.sides.size(); side-- > 0;) {
      const auto& [dim, margin, neighbours] = plan.sides[side];
      const int64_t extent = wide.size(dim) - margin.before - margin.after;
      const Messages messages{.to_before = packed(wide.narrow(dim, 0, margin.before)),
                              .to_after = packed(wide.narrow(dim, margin.before + extent, margin.after)),
                              .from_before = room_for(wide, dim, margin.after),
                              .from_after = room_for(wide, dim, margin.before)};
      messages.travel(neighbours, *plan.ranks);
      at::Tensor own = wide.narrow(dim, margin.before, extent);
      if (side + 1 == plan.sides.size()) own = own.clone(order);  // the gradient may be others', too
      if (neighbours.before >= 0) own.narrow(dim, 0, margin.after).add_(unpacked(messages.from_before));
      if (neighbours.after >= 0)
        own.narrow(dim, extent - margin.before, margin.before).add_(unpacked(messages.from_after));
      wide = own;
    }
    return {wide.contiguous(order), {}};
  }
};

}  // namespace

at::Tensor sum_over(const at::Tensor& x, comm::Communicator& ranks) { return Sum::apply(x, &ranks); }

at::Tensor spread_over(const at::Tensor& x, comm::Communicator& ranks) { return Spread::apply(x, &ranks); }

at::Tensor reduce_over(const at::Tensor& x, comm::Communicator& ranks) { return Reduce::apply(x, &ranks); }

at::Tensor gather_over(const at::Tensor& x, std::span<const int64_t> extents, comm::Communicator& ranks) {
  DDPM_CHECK(std::ssize(extents) == ranks.size() && x.dim() == 3 &&
                 x.size(1) == extents[static_cast<std::size_t>(ranks.rank())],
             "{} extents for {} ranks, of which this one has {}", extents.size(), ranks.size(), x.size(1));
  return Gather::apply(x, GatherPlan{{extents.begin(), extents.end()}, &ranks});
}

at::Tensor with_margins(const at::Tensor& x, std::span<const Side> sides, comm::Communicator& ranks) {
  return WithMargins::apply(x, MarginPlan{{sides.begin(), sides.end()}, &ranks});
}

}  // namespace ddpm::parallel
