#include "nn/ops/meta.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

namespace ddpm::nn {
namespace {

constexpr const char* kInputs = "inputs";

struct MetaFunction : torch::autograd::Function<MetaFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList inputs,
                            const MetaOperation& operation) {
    std::vector<at::Tensor> shapes;
    for (const at::Tensor& input : inputs) shapes.push_back(at::empty_like(input));
    context->saved_data[kInputs] = shapes;
    at::Tensor result = at::empty(operation.result_sizes, operation.result_options);
    torch::autograd::variable_list saved = operation.saved;
    if (operation.saves_result) saved.push_back(result);
    context->save_for_backward(std::move(saved));
    return result;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& /*gradients*/) {
    torch::autograd::variable_list gradients = context->saved_data[kInputs].toTensorVector();
    gradients.emplace_back();  // `operation` has no gradient
    return gradients;
  }
};

}  // namespace

at::Tensor run_on_meta(const MetaOperation& operation) {
  return MetaFunction::apply(at::TensorList(operation.inputs), operation);
}

}  // namespace ddpm::nn
