// Inside src/interop: the messages of an ONNX graph. Field numbers are those of onnx.proto, version 1.15.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/protobuf.h"

namespace ddpm::interop {

using base::ProtoMessage;

/// ONNX's numbers of types.
enum class OnnxType : uint8_t { float32 = 1, int64 = 7, float16 = 10, bfloat16 = 16 };

/// A dimension: a length, or the name of one that is open.
using OnnxDimension = std::variant<int64_t, std::string>;

/// An attribute of a node.
using OnnxAttribute = std::pair<std::string, std::variant<int64_t, float, std::string, std::vector<int64_t>>>;

class OnnxGraph {
 public:
  void add_input(const std::string& name, OnnxType type, const std::vector<OnnxDimension>& shape);
  void add_output(const std::string& name, const std::vector<OnnxDimension>& shape);
  /// Adds a node of the standard's operators.
  void add_node(std::string_view operation, const std::vector<std::string>& inputs,
                const std::vector<std::string>& outputs, const std::vector<OnnxAttribute>& attributes = {});
  /// Adds a constant, once per name; returns the name. The tensor is row-major, on the host.
  std::string constant(const std::string& name, const at::Tensor& value);
  /// One whose name follows from its values.
  std::string integers(const std::vector<int64_t>& values);
  std::string number(double value);

  /// The file's message. It borrows the constants, which stay with this object.
  [[nodiscard]] ProtoMessage model(int64_t opset, std::string_view producer, std::string_view version) const;

 private:
  std::vector<ProtoMessage> nodes_;
  std::vector<std::pair<std::string, at::Tensor>> constants_;
  std::set<std::string> names_;  // names of the constants so far
  std::vector<ProtoMessage> inputs_;
  std::vector<ProtoMessage> outputs_;
};

}  // namespace ddpm::interop
