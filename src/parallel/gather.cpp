#include "parallel/gather.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "base/check.h"

namespace ddpm::parallel {
namespace {

void gather_on_cpu(at::TensorList into, at::TensorList from, bool add) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    if (add) {
      into[i].add_(from[i]);
    } else {
      into[i].copy_(from[i]);
    }
  }
}

TORCH_LIBRARY_FRAGMENT(ddpm, m) { m.def("gather_(Tensor(a!)[] into, Tensor[] from, bool add) -> ()"); }

TORCH_LIBRARY_IMPL(ddpm, CPU, m) { m.impl("gather_", gather_on_cpu); }

}  // namespace

void gather_(at::TensorList into, at::TensorList from, bool add) {
  DDPM_CHECK(into.size() == from.size(), "{} runs for {}", from.size(), into.size());
  static const auto kOperator = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("ddpm::gather_", "")
                                    .typed<void(at::TensorList, at::TensorList, bool)>();
  if (!into.empty()) kOperator.call(into, from, add);
}

}  // namespace ddpm::parallel
