// Small integers, which every dtype holds exactly, in buffers of any dtype.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/dtype.h"
#include "comm/communicator.h"
#include "comm/half.h"

namespace ddpm::test {

inline constexpr std::array kAllDTypes = {base::DType::u8,   base::DType::i32, base::DType::i64, base::DType::f16,
                                          base::DType::bf16, base::DType::f32, base::DType::f64};

/// A buffer of one dtype, written and read as int.
class TypedValues {
 public:
  TypedValues(base::DType dtype, int64_t count)
      : dtype_(dtype), count_(count), bytes_(static_cast<std::size_t>(count) * base::size_of(dtype)) {}
  TypedValues(base::DType dtype, const std::vector<int>& values) : TypedValues(dtype, std::ssize(values)) {
    for (std::size_t i = 0; i < values.size(); ++i) set(i, values[i]);
  }

  [[nodiscard]] comm::Buffer buffer() { return {bytes_.data(), count_, dtype_}; }
  /// `count` elements from `first` on.
  [[nodiscard]] comm::Buffer part(int64_t first, int64_t count) {
    return {bytes_.data() + static_cast<std::size_t>(first) * base::size_of(dtype_), count, dtype_};
  }
  [[nodiscard]] std::vector<int> values() const {
    std::vector<int> out(static_cast<std::size_t>(count_));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = get(i);
    return out;
  }

 private:
  template <typename T>
  void put(std::size_t i, T value) {
    std::memcpy(bytes_.data() + i * sizeof(T), &value, sizeof(T));
  }
  template <typename T>
  [[nodiscard]] T take(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  void set(std::size_t i, int value) {
    switch (dtype_) {
      case base::DType::u8:
        return put(i, static_cast<uint8_t>(value));
      case base::DType::i32:
        return put(i, static_cast<int32_t>(value));
      case base::DType::i64:
        return put(i, static_cast<int64_t>(value));
      case base::DType::f16:
        return put(i, comm::f16_from_float(static_cast<float>(value)));
      case base::DType::bf16:
        return put(i, comm::bf16_from_float(static_cast<float>(value)));
      case base::DType::f32:
        return put(i, static_cast<float>(value));
      case base::DType::f64:
        return put(i, static_cast<double>(value));
    }
  }
  [[nodiscard]] int get(std::size_t i) const {
    switch (dtype_) {
      case base::DType::u8:
        return take<uint8_t>(i);
      case base::DType::i32:
        return take<int32_t>(i);
      case base::DType::i64:
        return static_cast<int>(take<int64_t>(i));
      case base::DType::f16:
        return static_cast<int>(comm::float_from_f16(take<uint16_t>(i)));
      case base::DType::bf16:
        return static_cast<int>(comm::float_from_bf16(take<uint16_t>(i)));
      case base::DType::f32:
        return static_cast<int>(take<float>(i));
      case base::DType::f64:
        return static_cast<int>(take<double>(i));
    }
    return 0;
  }

  base::DType dtype_;
  int64_t count_;
  std::vector<std::byte> bytes_;
};

/// What rank `rank` holds at element i.
inline int value_of(int rank, int64_t i) { return static_cast<int>((int64_t{rank} * 7 + i * 3 + rank * i) % 11); }

inline std::vector<int> values_of(int rank, int64_t count) {
  std::vector<int> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(value_of(rank, i));
  return values;
}

}  // namespace ddpm::test
