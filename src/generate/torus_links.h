// Exact, independent samples of two-dimensional lattice gauge theory on a torus, without a Markov chain.
//
// With Wilson's action the weight of a configuration is the product over plaquettes of w(U_P), a class function. In two
// dimensions the links can be traded for what is independent (Migdal, Soviet Physics JETP 42, 413 (1975)): a gauge
// transformation at each site, the two loops a and b around the torus, and all plaquettes but one, each with the
// group's uniform (Haar) measure. The last plaquette closes the torus: with plaquettes moved to one corner, the product
// of all N of them, column after column from the last one, is a b a^-1 b^-1. Summed over plaquettes the loops have the
// density f_N(a b a^-1 b^-1), and the first of m + 1 plaquettes with product g has w(q) f_m(q^-1 g), where f_m is the
// m-fold convolution of w. Both are drawn by rejection: q from w, accepted with probability f_m(q^-1 g) / f_m(1). For
// most m that is 1 to the last digit. So a sample has the theory's distribution exactly, in all topological sectors.
//
// A group has: Element; one(); operator* and inverse() of elements; haar(draws); plaquette(draws), distributed as w;
// and closes(g, m, draws): true with probability f_m(g) / f_m(1).
#pragma once

#include <cstdint>
#include <vector>

#include "generate/draws.h"

namespace ddpm::generate {

/// Links from the site at row y and column x, number y width + x: `right` to column x + 1, `down` to row y + 1.
template <typename Element>
struct Links {
  std::vector<Element> right, down;
};

/// U_P of the plaquette at row y and column x: right(y, x) down(y, x + 1) right(y + 1, x)^-1 down(y, x)^-1.
template <typename Group>
class TorusLinks {
 public:
  using Element = typename Group::Element;

  TorusLinks(int64_t height, int64_t width)
      : height_(static_cast<std::size_t>(height)), width_(static_cast<std::size_t>(width)) {
    plaquettes_.resize(height_ * width_);
    links_.right.resize(plaquettes_.size());
    links_.down.resize(plaquettes_.size());
    frames_.resize(plaquettes_.size());
  }

  /// The links stay the torus's until the next draw.
  Links<Element>& draw(const Group& group, Draws& draws) {
    draw_plaquettes(group, draws);
    set_links(group);
    transform(group, draws);
    return links_;
  }

 private:
  [[nodiscard]] std::size_t at(std::size_t y, std::size_t x) const { return y * width_ + x; }

  void draw_loops(const Group& group, Draws& draws) {
    do {
      a_ = group.haar(draws);
      b_ = group.haar(draws);
      product_ = a_ * b_ * a_.inverse() * b_.inverse();
    } while (!group.closes(product_, plaquettes_.size(), draws));
  }

  void draw_plaquettes(const Group& group, Draws& draws) {
    draw_loops(group, draws);
    std::size_t rest = plaquettes_.size();
    for (std::size_t x = width_; x-- > 0;) {
      for (std::size_t y = 0; y < height_; ++y) {
        Element& plaquette = plaquettes_[at(y, x)];
        if (--rest == 0) {
          plaquette = product_;
          break;
        }
        Element left;
        do {
          plaquette = group.plaquette(draws);
          left = plaquette.inverse() * product_;
        } while (!group.closes(left, rest, draws));
        product_ = left;
      }
    }
  }

  /// In the gauge where all links down are 1 but those of the last row, and all of the first row to the right but its
  /// last one, which is the loop a.
  void set_links(const Group& group) {
    for (std::size_t x = 0; x < width_; ++x) links_.right[x] = x + 1 < width_ ? group.one() : a_;
    for (std::size_t y = 0; y + 1 < height_; ++y) {
      for (std::size_t x = 0; x < width_; ++x) {
        links_.down[at(y, x)] = group.one();
        links_.right[at(y + 1, x)] = plaquettes_[at(y, x)].inverse() * links_.right[at(y, x)];
      }
    }
    const std::size_t last = height_ - 1;
    links_.down[at(last, 0)] = b_;
    for (std::size_t x = 0; x + 1 < width_; ++x) {
      links_.down[at(last, x + 1)] = links_.right[at(last, x)].inverse() * plaquettes_[at(last, x)] *
                                     links_.down[at(last, x)] * links_.right[at(0, x)];
    }
  }

  /// A random gauge: U -> g(x) U g(x + direction)^-1.
  void transform(const Group& group, Draws& draws) {
    for (Element& frame : frames_) frame = group.haar(draws);
    for (std::size_t y = 0; y < height_; ++y) {
      for (std::size_t x = 0; x < width_; ++x) {
        Element& right = links_.right[at(y, x)];
        Element& down = links_.down[at(y, x)];
        right = frames_[at(y, x)] * right * frames_[at(y, (x + 1) % width_)].inverse();
        down = frames_[at(y, x)] * down * frames_[at((y + 1) % height_, x)].inverse();
      }
    }
  }

  std::size_t height_, width_;
  Element a_, b_, product_;
  std::vector<Element> plaquettes_, frames_;
  Links<Element> links_;
};

}  // namespace ddpm::generate
