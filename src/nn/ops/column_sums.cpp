#include "nn/ops/column_sums.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace ddpm::nn {
namespace {

at::Tensor sums_on_cpu(const at::Tensor& rows) { return rows.sum(0); }

at::Tensor sums_on_meta(const at::Tensor& rows) { return at::empty({rows.size(1)}, rows.options()); }

TORCH_LIBRARY_FRAGMENT(ddpm, m) { m.def("column_sums(Tensor rows) -> Tensor"); }

TORCH_LIBRARY_IMPL(ddpm, CPU, m) { m.impl("column_sums", sums_on_cpu); }

TORCH_LIBRARY_IMPL(ddpm, Meta, m) { m.impl("column_sums", sums_on_meta); }

}  // namespace

at::Tensor column_sums(const at::Tensor& rows) {
  static const auto kOperator =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::column_sums", "").typed<at::Tensor(const at::Tensor&)>();
  return kOperator.call(rows);
}

}  // namespace ddpm::nn
