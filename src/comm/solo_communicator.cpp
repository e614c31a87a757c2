#include "comm/solo_communicator.h"

#include <cstring>

#include "base/check.h"
#include "base/error.h"

namespace ddpm::comm {
namespace {

void expect_same_size(const ConstBuffer& in, const Buffer& out) {
  DDPM_CHECK(in.dtype == out.dtype && in.count == out.count, "{} elements in, {} out, of one rank", in.count,
             out.count);
}

[[noreturn]] void refuse(int rank) {
  throw base::InternalError("a message between rank {} and a process that is alone", rank);
}

}  // namespace

Work SoloCommunicator::copy(ConstBuffer in, Buffer out) {
  if (in.count > 0 && in.data != out.data) {
    std::memmove(out.data, in.data, static_cast<std::size_t>(in.count) * base::size_of(in.dtype));
  }
  return {};
}

Work SoloCommunicator::all_reduce(Buffer in_out, ReduceOp /*op*/) { return copy(in_out, in_out); }

Work SoloCommunicator::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp /*op*/) {
  expect_same_size(in, out);
  return copy(in, out);
}

Work SoloCommunicator::all_gather(ConstBuffer in, Buffer out) {
  expect_same_size(in, out);
  return copy(in, out);
}

Work SoloCommunicator::broadcast(Buffer in_out, int root) {
  DDPM_CHECK(root == 0, "root {} of 1 rank", root);
  return copy(in_out, in_out);
}

Work SoloCommunicator::barrier() { return copy(Buffer{}, Buffer{}); }

Work SoloCommunicator::send(ConstBuffer /*in*/, int to, int /*tag*/) { refuse(to); }

Work SoloCommunicator::receive(Buffer /*out*/, int from, int /*tag*/) { refuse(from); }

std::unique_ptr<Communicator> SoloCommunicator::alone() { return std::make_unique<SoloCommunicator>(); }

}  // namespace ddpm::comm
