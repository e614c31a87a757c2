#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "base/version.h"
#include "interop/diffusers_writer.h"
#include "interop/network_writer.h"
#include "interop/onnx_graph.h"
#include "nn/time_embedding.h"

namespace ddpm::interop {
namespace {

namespace graph = nn::graph;
using nn::Resampling;
using Names = std::vector<std::string>;

constexpr int64_t kOpset = 18;
constexpr int64_t kOnnxFloat = static_cast<int64_t>(OnnxType::float32);
constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();
constexpr const char* kAxis = "axis";

/// Adds the nodes of one operation after the other. Each returns the name of its result.
class NodeWriter {
 public:
  NodeWriter(const graph::Graph& graph, at::ScalarType dtype, OnnxGraph& onnx)
      : graph_(graph), dtype_(dtype), onnx_(onnx) {}

  /// The nodes of the whole graph; returns the name of its output.
  std::string write_all() {
    for (const graph::Operation& operation : graph_.operations) results_.push_back(std::visit(*this, operation));
    return of(graph_.output);
  }

  std::string operator()(const graph::Input& op) { return op.name; }
  std::string operator()(const graph::Working& op) { return of(op.x); }  // float32
  std::string operator()(const graph::Float& op) { return of(op.x); }
  std::string operator()(const graph::Affine& op) {
    const std::string scaled = node("Mul", {of(op.x), onnx_.number(op.scale)});
    return op.offset == 0.0 ? scaled : node("Add", {scaled, onnx_.number(op.offset)});
  }
  std::string operator()(const graph::Sinusoids& op) {
    const std::string frequencies =
        onnx_.constant(next(), nn::sinusoid_frequencies(op.width, op.freq_shift).unsqueeze(0).contiguous());
    const std::string angles = node("Mul", {column(op.t), frequencies});
    Names parts = {node("Sin", {angles}), node("Cos", {angles})};
    if (op.flip_sin_to_cos) std::swap(parts[0], parts[1]);
    const std::string features = join(parts);
    return op.width % 2 == 0 ? features : node("Pad", {features, onnx_.integers({0, 0, 0, 1})});
  }
  std::string operator()(const graph::FourierFeatures& op) {
    std::string angles = node("Mul", {node("Log", {column(op.t)}), weight(op.frequencies)});
    angles = node("Mul", {node("Mul", {angles, onnx_.number(2.0)}), onnx_.number(std::numbers::pi)});
    return join({node("Sin", {angles}), node("Cos", {angles})});
  }
  std::string operator()(const graph::Lookup& op) { return node("Gather", {weight(op.table), of(op.indices)}); }
  std::string operator()(const graph::Linear& op) {
    const std::string transposed = node("Transpose", {weight(op.weight)}, {{"perm", std::vector<int64_t>{1, 0}}});
    return node("Add", {node("MatMul", {of(op.x), transposed}), weight(op.bias)});
  }
  std::string operator()(const graph::Half& op) {
    Names halves = {next(), next()};
    onnx_.add_node("Split", {of(op.x)}, halves, {{kAxis, int64_t{1}}, {"num_outputs", int64_t{2}}});
    return halves.at(static_cast<std::size_t>(op.which));
  }
  std::string operator()(const graph::Activate& op) {
    const std::string x = of(op.x);
    switch (op.activation) {
      case nn::Activation::silu:
        return node("Mul", {x, node("Sigmoid", {x})});
      case nn::Activation::mish:
        return node("Mul", {x, node("Tanh", {node("Softplus", {x})})});
      case nn::Activation::gelu: {
        const std::string error = node("Erf", {node("Mul", {x, onnx_.number(std::numbers::sqrt2 / 2.0)})});
        const std::string half = node("Mul", {x, onnx_.number(0.5)});
        return node("Mul", {half, node("Add", {error, onnx_.number(1.0)})});
      }
      case nn::Activation::relu:
        return node("Relu", {x});
      case nn::Activation::none:
        break;
    }
    throw base::InternalError("activation {} in a graph", static_cast<int>(op.activation));
  }
  std::string operator()(const graph::Add& op) { return node("Add", {of(op.a), of(op.b)}); }
  std::string operator()(const graph::Shift& op) { return node("Add", {of(op.x), over_pixels(of(op.shift), 2)}); }
  std::string operator()(const graph::Modulate& op) {
    const std::string factor = node("Add", {over_pixels(of(op.scale), 2), onnx_.number(1.0)});
    return node("Add", {node("Mul", {of(op.x), factor}), over_pixels(of(op.shift), 2)});
  }
  /// Each group of channels is one channel of an instance normalisation.
  std::string operator()(const graph::Normalise& op) {
    const std::string x = of(op.x);
    const std::string grouped = node("Reshape", {x, onnx_.integers({0, op.groups, -1})});
    const std::string ones = onnx_.constant(fmt::format("ones {}", op.groups), at::ones({op.groups}));
    const std::string zeros = onnx_.constant(fmt::format("zeros {}", op.groups), at::zeros({op.groups}));
    std::string y = node("InstanceNormalization", {grouped, ones, zeros}, {{"epsilon", static_cast<float>(op.eps)}});
    y = node("Reshape", {y, node("Shape", {x})});
    if (op.weight == nullptr) return y;
    y = node("Mul", {y, over_pixels(weight(op.weight), 1)});
    return node("Add", {y, over_pixels(weight(op.bias), 1)});
  }
  std::string operator()(const graph::Convolve& op) {
    const nn::ConvolutionOptions& o = op.options;
    std::vector<int64_t> before;
    std::vector<int64_t> after;
    std::string x = of(op.x);
    for (std::size_t axis = 0; axis < graph_.periodic.size(); ++axis) {
      const bool wraps = graph_.periodic[axis] && o.kernel > 1;
      if (wraps) x = wrapped(x, static_cast<int64_t>(axis) + 2, o.before, o.kernel - o.stride - o.before);
      before.push_back(wraps ? 0 : o.before);
      after.push_back(wraps ? 0 : o.after);
    }
    before.insert(before.end(), after.begin(), after.end());
    Names inputs = {x, weight(op.weight)};
    if (op.bias != nullptr) inputs.push_back(weight(op.bias));
    return node("Conv", inputs, {{"pads", before}, {"strides", each_axis(o.stride)}});
  }
  std::string operator()(const graph::Box& op) {
    if (op.resampling == Resampling::down) {
      return node("AveragePool", {of(op.x)}, {{"kernel_shape", each_axis(2)}, {"strides", each_axis(2)}});
    }
    const at::Tensor scales = at::cat({at::ones({2}), at::full({graph_.axes}, 2.0)});
    return node("Resize", {of(op.x), "", onnx_.constant("doubled", scales)},
                {{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}});
  }
  std::string operator()(const graph::Filter& op) {
    const bool down = op.resampling == Resampling::down;
    const at::Tensor line =
        at::tensor(std::vector<double>{1.0, 3.0, 3.0, 1.0}, at::kFloat) * ((down ? 1.0 : 2.0) / 8.0);
    const at::Tensor kernel = (line.unsqueeze(1) * line.unsqueeze(0)).expand({op.channels, 1, 4, 4}).contiguous();
    const std::string name = onnx_.constant(fmt::format("filter {} {}", down ? "down" : "up", op.channels), kernel);
    std::string x = of(op.x);
    if (op.reflects) {
      x = node("Pad", {x, onnx_.integers({0, 0, 1, 1, 0, 0, 1, 1})}, {{"mode", "reflect"}});
    }
    const int64_t pads = op.reflects ? (down ? 0 : 3) : 1;
    return node(down ? "Conv" : "ConvTranspose", {x, name},
                {{"group", op.channels}, {"pads", std::vector<int64_t>(4, pads)}, {"strides", each_axis(2)}});
  }
  std::string operator()(const graph::Attend& op) {
    const auto heads = [&](graph::Value value, const std::vector<int64_t>& order) {
      const std::string split = node("Reshape", {of(value), onnx_.integers({0, 0, op.heads, op.head_dim})});
      return node("Transpose", {split}, {{"perm", order}});
    };
    const std::string products = node("MatMul", {heads(op.q, {0, 2, 1, 3}), heads(op.k, {0, 2, 3, 1})});
    const double scale = 1.0 / std::sqrt(static_cast<double>(op.head_dim));
    const std::string shares = node("Softmax", {node("Mul", {products, onnx_.number(scale)})}, {{kAxis, int64_t{-1}}});
    const std::string mixed = node("MatMul", {shares, heads(op.v, {0, 2, 1, 3})});
    const std::string by_position = node("Transpose", {mixed}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    return node("Reshape", {by_position, onnx_.integers({0, 0, op.heads * op.head_dim})});
  }
  std::string operator()(const graph::Rows& op) {
    return exchanged(node("Reshape", {of(op.x), onnx_.integers({0, 0, -1})}));
  }
  std::string operator()(const graph::Pixels& op) {
    return node("Reshape", {exchanged(of(op.rows)), node("Shape", {of(op.like)})});
  }
  std::string operator()(const graph::Join& op) { return join({of(op.a), of(op.b)}); }
  std::string operator()(const graph::DivideByTime& op) {
    return node("Div", {of(op.x), over_pixels(column(op.t), 2)});
  }

 private:
  [[nodiscard]] const std::string& of(graph::Value value) const {
    return results_.at(static_cast<std::size_t>(value.index));
  }
  std::string next() { return fmt::format("v{}", ++count_); }
  std::string node(std::string_view operation, const Names& inputs, const std::vector<OnnxAttribute>& attributes = {}) {
    std::string result = next();
    onnx_.add_node(operation, inputs, {result}, attributes);
    return result;
  }
  std::string weight(const nn::Parameter* parameter) {
    const at::Tensor stored = rounded_weight(*parameter, dtype_);
    const std::string name = onnx_.constant(parameter->name, stored);
    return stored.scalar_type() == at::kFloat ? name : node("Cast", {name}, {{"to", kOnnxFloat}});
  }
  /// t [N] as float32 [N, 1]
  std::string column(graph::Value t) {
    return node("Unsqueeze", {node("Cast", {of(t)}, {{"to", kOnnxFloat}}), onnx_.integers({1})});
  }
  std::string join(const Names& parts) { return node("Concat", parts, {{kAxis, int64_t{1}}}); }
  /// The last two dimensions of [N, P, C] change places.
  std::string exchanged(const std::string& x) {
    return node("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  }
  [[nodiscard]] std::vector<int64_t> each_axis(int64_t number) const {
    return std::vector<int64_t>(static_cast<std::size_t>(graph_.axes), number);
  }
  /// With a dimension of 1 for each axis of an image, from dimension `first` on.
  std::string over_pixels(const std::string& x, int64_t first) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < graph_.axes; ++axis) axes.push_back(first + axis);
    return node("Unsqueeze", {x, onnx_.integers(axes)});
  }
  /// x with its other side in front of dimension `axis` and behind it.
  std::string wrapped(const std::string& x, int64_t axis, int64_t before, int64_t after) {
    const auto slice = [&](int64_t begin, int64_t end) {
      return node("Slice", {x, onnx_.integers({begin}), onnx_.integers({end}), onnx_.integers({axis})});
    };
    Names parts;
    if (before > 0) parts.push_back(slice(-before, kToTheEnd));
    parts.push_back(x);
    if (after > 0) parts.push_back(slice(0, after));
    return parts.size() == 1 ? x : node("Concat", parts, {{kAxis, axis}});
  }

  const graph::Graph& graph_;
  at::ScalarType dtype_;
  OnnxGraph& onnx_;
  Names results_;
  int64_t count_ = 0;
};

/// [N, channels, H, W], and of volumes the depth before; sides are open where the model takes any.
std::vector<OnnxDimension> image_shape(const nn::UNet2DConfig& c, int64_t channels) {
  const nn::ImageSize size = nn::image_size(c);
  const auto side = [](int64_t length, const char* name) {
    return length > 0 ? OnnxDimension(length) : OnnxDimension(name);
  };
  std::vector<OnnxDimension> shape = {"N", channels};
  if (c.dimensions == 3) shape.push_back(side(size.depth, "D"));
  shape.push_back(side(size.height, "H"));
  shape.push_back(side(size.width, "W"));
  return shape;
}

void declare_inputs(const Network& network, OnnxGraph& onnx) {
  const nn::UNet2DConfig& c = network.unet.config();
  onnx.add_input("sample", OnnxType::float32, image_shape(c, c.in_channels));
  onnx.add_input("timestep", network.whole_timesteps ? OnnxType::int64 : OnnxType::float32, {"N"});
  if (c.class_embed_type == nn::ClassEmbedding::identity) {
    onnx.add_input("class_labels", OnnxType::float32, {"N", nn::time_embedding_dim(c)});
  } else if (nn::is_class_conditional(c)) {
    onnx.add_input("class_labels", OnnxType::int64, {"N"});
  }
  if (c.num_parameters) onnx.add_input("parameters", OnnxType::float32, {"N", *c.num_parameters});
}

}  // namespace

void expect_onnx_size(const base::Path& path, uint64_t bytes) {
  constexpr uint64_t kMaxBytes = std::numeric_limits<int32_t>::max();
  if (bytes <= kMaxBytes) return;
  throw base::OutputError(
      "{}: the model takes {} bytes, and an ONNX file holds {} at most; wanted: --dtype bf16, fp16 or another format",
      path.string(), bytes, kMaxBytes);
}

void write_onnx(base::FileSystem& files, const base::Path& path, const Network& network) {
  const graph::Graph described = network.unet.graph();
  OnnxGraph onnx;
  declare_inputs(network, onnx);
  const std::string prediction = NodeWriter(described, network.dtype, onnx).write_all();
  const std::string output = "prediction";
  onnx.add_node("Identity", {prediction}, {output});
  onnx.add_output(output, image_shape(network.unet.config(), network.unet.config().out_channels));
  const ProtoMessage model = onnx.model(kOpset, kProducer, base::kVersion);
  expect_onnx_size(path, model.size());
  base::remove_leftovers(files, path);
  base::write_staged(files, path, [&model](base::WritableFile& file) { model.write(file); });
}

}  // namespace ddpm::interop
