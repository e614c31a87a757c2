#include "layout/mesh.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace ddpm::layout {
namespace {

/// The keys stand in the order of Axis.
constexpr std::array<const char*, 6> kKeys{"parallel.pipeline_size",         "parallel.dp_replicate_size",
                                           "parallel.dp_replicate_size",     "parallel.dp_shard_size",
                                           "tiles of parallel.spatial_size", "parallel.tensor_size"};

/// The product, or -1 for one that is greater than `most`.
int64_t product_of(std::span<const Degree> degrees, int64_t most) {
  int64_t product = 1;
  for (const Degree& degree : degrees) {
    if (degree.ranks > 0 && product > most / degree.ranks) return -1;
    product *= degree.ranks;
  }
  return product;
}

}  // namespace

std::string Mesh::refusal(std::span<const Degree> degrees, int64_t ranks) {
  const bool positive = std::ranges::all_of(degrees, [](const Degree& degree) { return degree.ranks > 0; });
  if (positive && product_of(degrees, ranks) == ranks) return "";
  std::vector<std::string> factors;
  double product = 1.0;  // Absurd degrees must not overflow.
  for (auto degree = degrees.rbegin(); degree != degrees.rend(); ++degree) {
    factors.push_back(fmt::format("{} = {}", kKeys[static_cast<std::size_t>(degree->axis)], degree->ranks));
    product *= static_cast<double>(degree->ranks);
  }
  return fmt::format("{} is {:.0f}; it must be the number of ranks, {}", fmt::join(factors, " × "), product, ranks);
}

Mesh::Mesh(std::vector<Degree> degrees, int64_t ranks) : degrees_(std::move(degrees)) {
  if (const std::string why = refusal(degrees_, ranks); !why.empty()) throw base::ConfigError("{}", why);
}

int64_t Mesh::size() const {
  int64_t ranks = 1;
  for (const Degree& degree : degrees_) ranks *= degree.ranks;
  return ranks;
}

int64_t Mesh::degree(Axes axes) const {
  int64_t ranks = 1;
  for (const Degree& degree : degrees_) ranks *= axes.contains(degree.axis) ? degree.ranks : 1;
  return ranks;
}

int64_t Mesh::coordinate(int64_t rank, Axes axes) const { return number(rank, axes, /*contained=*/true); }

int64_t Mesh::group(int64_t rank, Axes axes) const { return number(rank, axes, /*contained=*/false); }

std::vector<int64_t> Mesh::ranks(int64_t group, Axes axes) const {
  std::vector<int64_t> members;
  for (int64_t place = 0; place < degree(axes); ++place) {
    int64_t rank = 0;
    int64_t stride = 1;
    int64_t along = place;
    int64_t across = group;
    for (auto degree = degrees_.rbegin(); degree != degrees_.rend(); ++degree) {
      int64_t& number = axes.contains(degree->axis) ? along : across;
      rank += stride * (number % degree->ranks);
      number /= degree->ranks;
      stride *= degree->ranks;
    }
    members.push_back(rank);
  }
  return members;
}

int64_t Mesh::number(int64_t rank, Axes axes, bool contained) const {
  int64_t number = 0;
  int64_t stride = 1;
  for (auto degree = degrees_.rbegin(); degree != degrees_.rend(); ++degree) {
    if (axes.contains(degree->axis) == contained) {
      number += stride * (rank % degree->ranks);
      stride *= degree->ranks;
    }
    rank /= degree->ranks;
  }
  return number;
}

int64_t image_share(const Mesh& mesh, int64_t rank) {
  const int64_t of_island = mesh.coordinate(rank, Axes(Axis::replicate) | Axes(Axis::shard));
  return of_island * mesh.degree(Axis::island) + mesh.coordinate(rank, Axis::island);
}

}  // namespace ddpm::layout
