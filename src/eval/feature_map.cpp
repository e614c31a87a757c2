#include "eval/feature_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include "base/error.h"
#include "base/input_file.h"
#include "base/random.h"

namespace ddpm::eval {
namespace {

/// Features that may be used in a distance.
at::Tensor checked(const at::Tensor& features, const std::string& name) {
  if (features.isfinite().all().item<bool>()) return features;
  throw base::OutputError("{}: answers with features that are not finite; wanted: finite numbers", name);
}

class RandomConvolutions final : public FeatureMap {
 public:
  explicit RandomConvolutions(const data::ImageFormat& picture) {
    for (int64_t side = std::min(picture.height, picture.width);
         side >= kLeastSide && std::ssize(scales_) < kMostScales; side /= 2) {
      const auto scale = static_cast<uint64_t>(scales_.size());
      scales_.push_back({weights(kInner, picture.channels, scale, 0), weights(kOuter, kInner, scale, 1)});
    }
    if (!scales_.empty()) return;
    throw base::DatasetError("pictures of {} × {} pixels are too small for features; wanted: sides of {} at least",
                             picture.height, picture.width, kLeastSide);
  }

  [[nodiscard]] at::Tensor features(const at::Tensor& pictures) const override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> parts;
    at::Tensor x = pictures.contiguous();
    for (const auto& [inner, outer] : scales_) {
      if (!parts.empty()) x = at::avg_pool2d(x, {2, 2});
      const at::Tensor hidden = at::conv2d(x, inner, {}, 1, /*padding=*/at::IntArrayRef({1, 1})).relu();
      const at::Tensor seen = at::conv2d(hidden, outer, {}, 1, /*padding=*/at::IntArrayRef({1, 1})).relu();
      parts.push_back(at::adaptive_avg_pool2d(seen, {2, 2}).flatten(1));
    }
    return checked(at::cat(parts, 1).to(at::kDouble), name());
  }
  [[nodiscard]] std::string name() const override {
    return fmt::format("random convolutions ({} features)", std::ssize(scales_) * 4 * kOuter);
  }

 private:
  static constexpr int64_t kLeastSide = 4;
  static constexpr int64_t kMostScales = 4;
  static constexpr int64_t kInner = 24;
  static constexpr int64_t kOuter = 16;
  struct Scale {
    at::Tensor inner;
    at::Tensor outer;
  };

  static at::Tensor weights(int64_t out, int64_t in, uint64_t scale, uint64_t layer) {
    at::Tensor values = at::empty({out, in, 3, 3}, at::kFloat);
    const base::RandomSequence normals(/*seed=*/0, base::Stream::evaluation_features, scale, layer);
    normals.fill_normal({values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())});
    return values * std::sqrt(2.0 / (9.0 * static_cast<double>(in)));
  }

  std::vector<Scale> scales_;
};

/// What LibTorch says of a failure: the last line that is not empty, without the trace of calls before it.
std::string reason_of(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "no reason is given";
  const std::size_t begin = text.rfind('\n', end);
  const std::string line = text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
  return line.substr(std::min(line.find_first_not_of(' '), line.size()), 400);
}

class Extractor final : public FeatureMap {
 public:
  Extractor(const base::Path& path, const PixelRange& range)
      : name_(path.filename().string()), path_(path.string()), range_(range) {
    // Opened once as any other file, so that one that is not there is said to be so.
    const base::InputFile file(path);
    try {
      module_ = torch::jit::load(path_, at::kCPU);
      module_.eval();
    } catch (const std::exception& error) {
      throw base::OutputError("--extractor {}: cannot be loaded: {}; wanted: a file of torch.jit.save", path_,
                              reason_of(error));
    }
  }

  [[nodiscard]] at::Tensor features(const at::Tensor& pictures) const override {
    const at::NoGradGuard no_grad;
    // The executor's first runs would otherwise differ from the later ones, which depends on the number of ranks.
    torch::jit::setGraphExecutorOptimize(false);
    const at::Tensor given =
        ((pictures.contiguous() + 1.0) * ((range_.high - range_.low) / 2.0) + range_.low).to(at::kFloat);
    return checked(flat(answer_to(given), given.size(0)).to(at::kDouble).contiguous(), "--extractor " + path_);
  }
  [[nodiscard]] std::string name() const override { return name_; }

 private:
  [[nodiscard]] at::Tensor answer_to(const at::Tensor& pictures) const {
    try {
      torch::jit::Module module = module_;  // shares the weights
      const c10::IValue answer = module.forward({pictures});
      if (answer.isTensor()) return answer.toTensor();
      throw base::OutputError("--extractor {}: answers with a {}; wanted: a tensor [{}, D]", path_, answer.tagKind(),
                              pictures.size(0));
    } catch (const base::Error&) {
      throw;
    } catch (const std::exception& error) {
      throw base::OutputError("--extractor {}: fails on pictures [{}]: {}", path_, fmt::join(pictures.sizes(), ", "),
                              reason_of(error));
    }
  }

  [[nodiscard]] at::Tensor flat(const at::Tensor& answer, int64_t n) const {
    const bool sized = answer.dim() >= 2 && answer.size(0) == n && answer.numel() == n * answer.size(1);
    if (sized && answer.numel() > 0 && at::isFloatingType(answer.scalar_type())) return answer.flatten(1);
    throw base::OutputError("--extractor {}: answers with [{}] of {}; wanted: floating [{}, D]", path_,
                            fmt::join(answer.sizes(), ", "), c10::toString(answer.scalar_type()), n);
  }

  std::string name_;
  std::string path_;
  PixelRange range_;
  torch::jit::Module module_;
};

}  // namespace

std::unique_ptr<FeatureMap> random_convolutions(const data::ImageFormat& picture) {
  return std::make_unique<RandomConvolutions>(picture);
}

std::unique_ptr<FeatureMap> load_extractor(const base::Path& path, const PixelRange& range) {
  return std::make_unique<Extractor>(path, range);
}

}  // namespace ddpm::eval
