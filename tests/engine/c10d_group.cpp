#include "engine/c10d_group.h"

#include "base/error.h"

namespace ddpm::engine::test {
namespace {

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw base::CommunicationError("{} failed with code {}", call, code);
}

MPI_Datatype type_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return MPI_FLOAT;
  if (tensor.scalar_type() == at::kInt) return MPI_INT32_T;
  throw base::InternalError("the group sends no {}", c10::toString(tensor.scalar_type()));
}

/// A collective that is complete, with the tensors that it changed as its result.
c10::intrusive_ptr<c10d::Work> done(const std::vector<at::Tensor>& tensors) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  future->markCompleted(c10::IValue(tensors));
  return c10d::Work::create_from_future(future);
}

class MpiBackend final : public c10d::Backend {
 public:
  MpiBackend(MPI_Comm comm, int rank, int size) : Backend(rank, size), comm_(comm) {}

  const std::string getBackendName() const override { return "mpi"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
      throw base::InternalError("the group has no reduction but the sum");
    for (const at::Tensor& tensor : tensors) {
      check(MPI_Allreduce(MPI_IN_PLACE, tensor.mutable_data_ptr(), count_of(tensor), type_of(tensor), MPI_SUM, comm_),
            "MPI_Allreduce");
    }
    return done(tensors);
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    for (const at::Tensor& tensor : tensors) {
      check(MPI_Bcast(tensor.mutable_data_ptr(), count_of(tensor), type_of(tensor), static_cast<int>(options.rootRank),
                      comm_),
            "MPI_Bcast");
    }
    return done(tensors);
  }

 private:
  static int count_of(const at::Tensor& tensor) {
    if (!tensor.is_contiguous()) throw base::InternalError("the group sends contiguous tensors only");
    return static_cast<int>(tensor.numel());
  }

  MPI_Comm comm_;
};

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_c10d_group(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  auto group = c10::make_intrusive<c10d::ProcessGroup>(rank, size);
  group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<MpiBackend>(comm, rank, size));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  return group;
}

}  // namespace ddpm::engine::test
