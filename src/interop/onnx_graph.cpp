#include "interop/onnx_graph.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace ddpm::interop {
namespace {

// The numbers of AttributeProto's types.
constexpr int64_t kFloatAttribute = 1;
constexpr int64_t kIntAttribute = 2;
constexpr int64_t kStringAttribute = 3;
constexpr int64_t kIntsAttribute = 7;
constexpr int64_t kIrVersion = 8;

OnnxType type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return OnnxType::float32;
    case at::kLong:
      return OnnxType::int64;
    case at::kHalf:
      return OnnxType::float16;
    case at::kBFloat16:
      return OnnxType::bfloat16;
    default:
      throw base::InternalError("ONNX constant of {}", toString(tensor.scalar_type()));
  }
}

ProtoMessage attribute_message(const OnnxAttribute& attribute) {
  ProtoMessage message;
  message.add(1, attribute.first);
  int64_t type = 0;
  if (const auto* integer = std::get_if<int64_t>(&attribute.second)) {
    message.add(3, *integer);
    type = kIntAttribute;
  } else if (const auto* real = std::get_if<float>(&attribute.second)) {
    message.add(2, *real);
    type = kFloatAttribute;
  } else if (const auto* text = std::get_if<std::string>(&attribute.second)) {
    message.add(4, *text);
    type = kStringAttribute;
  } else {
    for (const int64_t number : std::get<std::vector<int64_t>>(attribute.second)) message.add(8, number);
    type = kIntsAttribute;
  }
  message.add(20, type);
  return message;
}

/// ValueInfoProto: a name with a tensor's type and shape.
ProtoMessage value_message(const std::string& name, OnnxType type, const std::vector<OnnxDimension>& shape) {
  ProtoMessage dimensions;
  for (const OnnxDimension& length : shape) {
    ProtoMessage dimension;
    if (const auto* open = std::get_if<std::string>(&length)) {
      dimension.add(2, *open);
    } else {
      dimension.add(1, std::get<int64_t>(length));
    }
    dimensions.add(1, std::move(dimension));
  }
  ProtoMessage tensor;
  tensor.add(1, static_cast<int64_t>(type));
  tensor.add(2, std::move(dimensions));
  ProtoMessage any;
  any.add(1, std::move(tensor));
  ProtoMessage value;
  value.add(1, name);
  value.add(2, std::move(any));
  return value;
}

ProtoMessage tensor_message(const std::string& name, const at::Tensor& tensor) {
  ProtoMessage message;
  for (const int64_t length : tensor.sizes()) message.add(1, length);
  message.add(2, static_cast<int64_t>(type_of(tensor)));
  message.add(8, name);
  message.add_bytes(9, {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  return message;
}

}  // namespace

void OnnxGraph::add_input(const std::string& name, OnnxType type, const std::vector<OnnxDimension>& shape) {
  inputs_.push_back(value_message(name, type, shape));
}

void OnnxGraph::add_output(const std::string& name, const std::vector<OnnxDimension>& shape) {
  outputs_.push_back(value_message(name, OnnxType::float32, shape));
}

void OnnxGraph::add_node(std::string_view operation, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, const std::vector<OnnxAttribute>& attributes) {
  ProtoMessage node;
  for (const std::string& input : inputs) node.add(1, input);
  for (const std::string& output : outputs) node.add(2, output);
  node.add(3, outputs.front());
  node.add(4, operation);
  for (const OnnxAttribute& attribute : attributes) node.add(5, attribute_message(attribute));
  nodes_.push_back(std::move(node));
}

std::string OnnxGraph::constant(const std::string& name, const at::Tensor& value) {
  if (names_.insert(name).second) constants_.emplace_back(name, value);
  return name;
}

std::string OnnxGraph::integers(const std::vector<int64_t>& values) {
  return constant(fmt::format("integers {}", fmt::join(values, " ")), at::tensor(values, at::kLong));
}

std::string OnnxGraph::number(double value) {
  return constant(fmt::format("number {}", value), at::scalar_tensor(value, at::kFloat));
}

ProtoMessage OnnxGraph::model(int64_t opset, std::string_view producer, std::string_view version) const {
  ProtoMessage graph;
  for (const ProtoMessage& node : nodes_) graph.add(1, node);
  graph.add(2, std::string_view("UNet2D"));
  for (const auto& [name, tensor] : constants_) graph.add(5, tensor_message(name, tensor));
  for (const ProtoMessage& input : inputs_) graph.add(11, input);
  for (const ProtoMessage& output : outputs_) graph.add(12, output);
  ProtoMessage operators;
  operators.add(1, std::string_view());  // the standard's own
  operators.add(2, opset);
  ProtoMessage model;
  model.add(1, kIrVersion);
  model.add(2, producer);
  model.add(3, version);
  model.add(7, std::move(graph));
  model.add(8, std::move(operators));
  return model;
}

}  // namespace ddpm::interop
