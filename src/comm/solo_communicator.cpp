#include "comm/solo_communicator.h"

#include <cstring>

#include "base/check.h"
#include "base/error.h"

namespace ddpm::comm {
namespace {

/// What the only rank puts in is what it gets out.
Work copy(ConstBuffer in, Buffer out) {
  DDPM_CHECK(in.dtype == out.dtype && in.count == out.count, "{} elements in, {} out, of one rank", in.count,
             out.count);
  if (in.count > 0) {
    std::memmove(out.data, in.data, static_cast<std::size_t>(in.count) * base::size_of(in.dtype));
  }
  return {};
}

[[noreturn]] void refuse(int rank) {
  throw base::InternalError("a message between rank {} and a process that is alone", rank);
}

}  // namespace

Work SoloCommunicator::all_reduce(Buffer /*in_out*/, ReduceOp /*op*/) { return {}; }

Work SoloCommunicator::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp /*op*/) { return copy(in, out); }

Work SoloCommunicator::all_gather(ConstBuffer in, Buffer out) { return copy(in, out); }

Work SoloCommunicator::broadcast(Buffer /*in_out*/, int root) {
  DDPM_CHECK(root == 0, "root {} of 1 rank", root);
  return {};
}

Work SoloCommunicator::barrier() { return {}; }

Work SoloCommunicator::send(ConstBuffer /*in*/, int to, int /*tag*/) { refuse(to); }

Work SoloCommunicator::receive(Buffer /*out*/, int from, int /*tag*/) { refuse(from); }

std::unique_ptr<Communicator> SoloCommunicator::split(int /*color*/, int /*key*/) { return duplicate(); }

std::unique_ptr<Communicator> SoloCommunicator::duplicate() { return std::make_unique<SoloCommunicator>(); }

}  // namespace ddpm::comm
