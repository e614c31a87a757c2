#include "train/grid_losses.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "diffusion/formulation.h"
#include "diffusion/level_name.h"

namespace ddpm::train {
namespace {

/// The level's name as a key.
std::string key_of(const diffusion::DiffusionConfig& config, const diffusion::GridLevel& level) {
  std::string name = diffusion::level_name(config, diffusion::grid_levels(config, level, 1));
  std::ranges::replace(name, ' ', '_');
  return name;
}

bool is_taken(const observe::NamedValues& values, const std::string& name) {
  return std::ranges::find(values, name, &std::pair<std::string, double>::first) != values.end();
}

/// The mean of the values at one place of each image, or of all levels, summed in the order in which they lie.
class Means {
 public:
  explicit Means(const at::Tensor& losses) : losses_(losses.contiguous()) {}
  [[nodiscard]] double of_level(int64_t level) const {
    return mean([level](int64_t l, int64_t /*channel*/) { return l == level; });
  }
  [[nodiscard]] double of_channel(int64_t channel) const {
    return mean([channel](int64_t /*level*/, int64_t c) { return c == channel; });
  }

 private:
  template <typename Counts>
  [[nodiscard]] double mean(const Counts& counts) const {
    double sum = 0.0;
    int64_t count = 0;
    const double* next = losses_.const_data_ptr<double>();
    for (int64_t image = 0; image < losses_.size(0); ++image) {
      for (int64_t level = 0; level < losses_.size(1); ++level) {
        for (int64_t channel = 0; channel < losses_.size(2); ++channel, ++next) {
          if (!counts(level, channel)) continue;
          sum += *next;
          ++count;
        }
      }
    }
    return sum / static_cast<double>(count);
  }

  at::Tensor losses_;
};

}  // namespace

observe::NamedValues losses_by_level(const at::Tensor& losses, const diffusion::DiffusionConfig& config) {
  const Means means(losses);
  observe::NamedValues values;
  for (int64_t level = 0; level < losses.size(1); ++level) {
    std::string name = key_of(config, {level, losses.size(1)});
    if (!is_taken(values, name)) values.emplace_back(std::move(name), means.of_level(level));
  }
  return values;
}

observe::NamedValues losses_by_variable(const at::Tensor& losses, const data::Field& images) {
  observe::NamedValues values;
  if (images.dtype == base::DType::u8 || losses.size(2) < 2) return values;
  const Means means(losses);
  for (int64_t channel = 0; channel < losses.size(2); ++channel) {
    const auto place = static_cast<std::size_t>(channel);
    std::string name = place < images.variables.size() ? images.variables[place].name : "";
    if (name.empty()) name = fmt::format("{}", channel);
    if (is_taken(values, name)) name += fmt::format("_{}", channel);
    values.emplace_back(std::move(name), means.of_channel(channel));
  }
  return values;
}

}  // namespace ddpm::train
