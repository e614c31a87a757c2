// MPI's C handles and return codes, wrapped once. Included by comm only (and by h5, through mpi_communicator.h).
#pragma once

#include <utility>

#include <mpi.h>

namespace ddpm::comm {

/// Throws CommunicationError with the operation, this process's rank in MPI_COMM_WORLD and MPI_Error_string, unless
/// `code` is MPI_SUCCESS.
void check_mpi(int code, const char* operation);

/// Called by destructors, which must not throw: logs a failed release, and skips it (returns false) after MPI_Finalize,
/// when MPI has released everything itself.
bool may_release_mpi(const char* what);
void log_failed_release(int code, const char* operation);

/// Owns an MPI_Op. Creating and freeing one is local.
class Op {
 public:
  /// A commutative operation.
  explicit Op(MPI_User_function* function) { check_mpi(MPI_Op_create(function, 1, &op_), "MPI_Op_create"); }
  ~Op() {
    if (op_ != MPI_OP_NULL && may_release_mpi("MPI_Op")) log_failed_release(MPI_Op_free(&op_), "MPI_Op_free");
  }
  Op(Op&& other) noexcept : op_(std::exchange(other.op_, MPI_OP_NULL)) {}
  Op& operator=(Op&& other) noexcept {
    std::swap(op_, other.op_);
    return *this;
  }
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  [[nodiscard]] MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
};

/// Owns a committed MPI_Datatype. Creating and freeing one is local; MPI keeps it alive for operations in flight.
class Datatype {
 public:
  /// `count` consecutive elements of `element`.
  static Datatype contiguous(int count, MPI_Datatype element);
  /// `count` consecutive elements of `element`; the next item of this type begins `extent` bytes after this one.
  static Datatype strided(int count, MPI_Datatype element, MPI_Aint extent);
  ~Datatype() {
    if (type_ != MPI_DATATYPE_NULL && may_release_mpi("MPI_Datatype")) {
      log_failed_release(MPI_Type_free(&type_), "MPI_Type_free");
    }
  }
  Datatype(Datatype&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}
  Datatype& operator=(Datatype&& other) noexcept {
    std::swap(type_, other.type_);
    return *this;
  }
  Datatype(const Datatype&) = delete;
  Datatype& operator=(const Datatype&) = delete;
  [[nodiscard]] MPI_Datatype get() const { return type_; }

 private:
  explicit Datatype(MPI_Datatype type) : type_(type) {}
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace ddpm::comm
