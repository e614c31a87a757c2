#include "interop/torchscript_code.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.h"

namespace ddpm::interop {
namespace {

namespace graph = nn::graph;
using nn::Resampling;

constexpr int kScriptFloat = 6;  // c10::ScalarType::Float, as TorchScript writes types

std::string name_of(graph::Value value) { return fmt::format("v{}", value.index); }

/// self.down_blocks.0.weight, whose numbers are no identifiers.
std::string attribute(const std::string& name) {
  std::string text = "self";
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool number = part.find_first_not_of("0123456789") == std::string::npos;
    text = fmt::format(fmt::runtime(number ? "getattr({}, \"{}\")" : "{}.{}"), text, part);
    begin = end + 1;
  }
  return text;
}

std::string attribute(const nn::Parameter* parameter) {
  return parameter == nullptr ? "None" : attribute(parameter->name);
}

/// With a point, by which TorchScript tells it from an integer.
std::string number(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

/// A list with one number for each axis.
std::string each_axis(int64_t axes, int64_t number) {
  return fmt::format("[{}]", fmt::join(std::vector<int64_t>(static_cast<std::size_t>(axes), number), ", "));
}

/// The expression of each operation; what takes more than one line writes the others first.
class ScriptWriter {
 public:
  ScriptWriter(const graph::Graph& graph, std::string dtype) : graph_(graph), dtype_(std::move(dtype)) {}

  std::string operator()(const graph::Input& op) const { return op.name; }
  std::string operator()(const graph::Working& op) const { return fmt::format("{}.to({})", name_of(op.x), dtype_); }
  std::string operator()(const graph::Float& op) const { return as_float(op.x); }
  std::string operator()(const graph::Affine& op) const {
    const std::string scaled = fmt::format("{} * {}", name_of(op.x), number(op.scale));
    return op.offset == 0.0 ? scaled : fmt::format("{} + {}", scaled, number(op.offset));
  }
  std::string operator()(const graph::Sinusoids& op) {
    const int64_t half = op.width / 2;
    line("index", fmt::format("torch.arange(0, {}, dtype={}, device={}.device)", half, kScriptFloat, name_of(op.t)));
    line("frequencies",
         fmt::format("torch.exp(index * {} / {})", -std::log(10000.0), static_cast<double>(half - op.freq_shift)));
    line("angles", fmt::format("torch.unsqueeze({}, 1) * torch.unsqueeze(frequencies, 0)", as_float(op.t)));
    const std::string features = op.flip_sin_to_cos ? "torch.cat([torch.cos(angles), torch.sin(angles)], 1)"
                                                    : "torch.cat([torch.sin(angles), torch.cos(angles)], 1)";
    return op.width % 2 == 0 ? features : fmt::format("torch.constant_pad_nd({}, [0, 1])", features);
  }
  std::string operator()(const graph::FourierFeatures& op) {
    line("angles", fmt::format("torch.unsqueeze(torch.log({}), 1) * torch.unsqueeze({}.to({}), 0) * 2.0 * {}",
                               as_float(op.t), attribute(op.frequencies), kScriptFloat, std::numbers::pi));
    return "torch.cat([torch.sin(angles), torch.cos(angles)], 1)";
  }
  std::string operator()(const graph::Lookup& op) const {
    return fmt::format("torch.embedding({}, {})", attribute(op.table), name_of(op.indices));
  }
  std::string operator()(const graph::Linear& op) const {
    return fmt::format("torch.linear({}, {}, {})", name_of(op.x), attribute(op.weight), attribute(op.bias));
  }
  std::string operator()(const graph::Half& op) const {
    return fmt::format("torch.chunk({}, 2, 1)[{}]", name_of(op.x), op.which);
  }
  std::string operator()(const graph::Activate& op) const {
    return fmt::format("torch.{}({})", activation_name(op.activation), name_of(op.x));
  }
  std::string operator()(const graph::Add& op) const { return fmt::format("{} + {}", name_of(op.a), name_of(op.b)); }
  std::string operator()(const graph::Shift& op) const {
    return fmt::format("{} + {}", name_of(op.x), over_pixels(op.shift));
  }
  std::string operator()(const graph::Modulate& op) const {
    return fmt::format("{} * (1 + {}) + {}", name_of(op.x), over_pixels(op.scale), over_pixels(op.shift));
  }
  std::string operator()(const graph::Normalise& op) const {
    return fmt::format("torch.group_norm({}, {}, {}, {}, {})", name_of(op.x), op.groups, attribute(op.weight),
                       attribute(op.bias), number(op.eps));
  }
  std::string operator()(const graph::Convolve& op) {
    const auto& o = op.options;
    std::string x = name_of(op.x);
    const bool wraps = std::ranges::find(graph_.periodic, true) != graph_.periodic.end();
    const bool pads = o.kernel > 1 && (wraps || o.before != o.after);
    if (pads) x = padded(x, o);
    return fmt::format("torch.conv{}d({}, {}, {}, {}, {})", graph_.axes, x, attribute(op.weight), attribute(op.bias),
                       each_axis(graph_.axes, o.stride), each_axis(graph_.axes, pads ? 0 : o.before));
  }
  std::string operator()(const graph::Box& op) const {
    const std::string x = name_of(op.x);
    if (op.resampling == Resampling::down) {
      const std::string two = each_axis(graph_.axes, 2);
      return fmt::format("torch.avg_pool{}d({}, {}, {})", graph_.axes, x, two, two);
    }
    std::vector<std::string> sides;
    for (int64_t axis = 0; axis < graph_.axes; ++axis) sides.push_back(fmt::format("2 * {}.size({})", x, 2 + axis));
    return fmt::format("torch.upsample_nearest{}d({}, [{}])", graph_.axes, x, fmt::join(sides, ", "));
  }
  std::string operator()(const graph::Filter& op) {
    std::string x = name_of(op.x);
    const bool down = op.resampling == Resampling::down;
    const double outer = (down ? 1.0 : 2.0) / 8.0;
    line("taps",
         fmt::format("torch.tensor([{0}, {1}, {1}, {0}], dtype={2}.dtype, device={2}.device)", outer, 3.0 * outer, x));
    line("kernel", fmt::format("torch.expand_copy(torch.unsqueeze(taps, 1) * torch.unsqueeze(taps, 0), [{}, 1, 4, 4])",
                               op.channels));
    if (op.reflects) x = fmt::format("torch.reflection_pad2d({}, [1, 1, 1, 1])", x);
    if (down) {
      return fmt::format("torch.conv2d({}, kernel, None, [2, 2], {}, [1, 1], {})", x, each_axis(2, op.reflects ? 0 : 1),
                         op.channels);
    }
    return fmt::format("torch.conv_transpose2d({}, kernel, None, [2, 2], {}, [0, 0], {})", x,
                       each_axis(2, op.reflects ? 3 : 1), op.channels);
  }
  std::string operator()(const graph::Attend& op) const {
    const auto heads = [&](graph::Value value) {
      return fmt::format("torch.transpose(torch.unflatten({}, 2, [{}, {}]), 1, 2)", name_of(value), op.heads,
                         op.head_dim);
    };
    return fmt::format("torch.flatten(torch.transpose(torch.scaled_dot_product_attention({}, {}, {}), 1, 2), 2)",
                       heads(op.q), heads(op.k), heads(op.v));
  }
  std::string operator()(const graph::Rows& op) const {
    return fmt::format("torch.transpose(torch.flatten({}, 2), 1, 2)", name_of(op.x));
  }
  std::string operator()(const graph::Pixels& op) const {
    return fmt::format("torch.reshape(torch.transpose({}, 1, 2), {}.size())", name_of(op.rows), name_of(op.like));
  }
  std::string operator()(const graph::Join& op) const {
    return fmt::format("torch.cat([{}, {}], 1)", name_of(op.a), name_of(op.b));
  }
  std::string operator()(const graph::DivideByTime& op) const {
    std::string one_each = "[-1, 1";
    for (int64_t axis = 0; axis < graph_.axes; ++axis) one_each += ", 1";
    return fmt::format("{} / torch.reshape({}, {}])", name_of(op.x), as_float(op.t), one_each);
  }

  void line(std::string_view name, const std::string& expression) {
    text_ += fmt::format("  {} = {}\n", name, expression);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  static std::string as_float(graph::Value value) { return fmt::format("{}.to({})", name_of(value), kScriptFloat); }

  static std::string_view activation_name(nn::Activation activation) {
    switch (activation) {
      case nn::Activation::silu:
        return "silu";
      case nn::Activation::mish:
        return "mish";
      case nn::Activation::gelu:
        return "gelu";
      case nn::Activation::relu:
        return "relu";
      case nn::Activation::none:
        break;
    }
    throw base::InternalError("activation {} in a graph", static_cast<int>(activation));
  }

  [[nodiscard]] std::string over_pixels(graph::Value value) const {
    std::string text = name_of(value);
    for (int64_t axis = 0; axis < graph_.axes; ++axis) text = fmt::format("torch.unsqueeze({}, -1)", text);
    return text;
  }

  /// x with all that a convolution sees beyond the image: a kernel that begins `before` pixels in front of it.
  std::string padded(const std::string& x, const nn::ConvolutionOptions& o) {
    const int64_t below = o.kernel - o.stride - o.before;
    std::vector<int64_t> wrapped;
    std::vector<int64_t> zeros;
    for (auto periodic = graph_.periodic.rbegin(); periodic != graph_.periodic.rend(); ++periodic) {
      (*periodic ? wrapped : zeros)
          .insert((*periodic ? wrapped : zeros).end(), {o.before, *periodic ? below : o.after});
      (*periodic ? zeros : wrapped).insert((*periodic ? zeros : wrapped).end(), {0, 0});
    }
    const auto any = [](const std::vector<int64_t>& pads) {
      return std::ranges::any_of(pads, [](int64_t p) { return p > 0; });
    };
    line("padded", x);
    if (any(wrapped)) line("padded", fmt::format("torch.pad(padded, [{}], \"circular\")", fmt::join(wrapped, ", ")));
    if (any(zeros)) line("padded", fmt::format("torch.constant_pad_nd(padded, [{}])", fmt::join(zeros, ", ")));
    return "padded";
  }

  const graph::Graph& graph_;
  std::string dtype_;
  std::string text_;
};

}  // namespace

std::string torchscript_code(const graph::Graph& graph, const std::string& dtype_of) {
  ScriptWriter writer(graph, attribute(dtype_of) + ".dtype");
  std::string inputs;
  for (std::size_t i = 0; i < graph.operations.size(); ++i) {
    const graph::Operation& operation = graph.operations[i];
    if (const auto* input = std::get_if<graph::Input>(&operation)) inputs += fmt::format(", {}: Tensor", input->name);
    const std::string expression = std::visit(writer, operation);
    writer.line(name_of(graph::Value{static_cast<int64_t>(i)}), expression);
  }
  return fmt::format("def forward(self{}) -> Tensor:\n{}  return {}\n", inputs, writer.text(), name_of(graph.output));
}

}  // namespace ddpm::interop
