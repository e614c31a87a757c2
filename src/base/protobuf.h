// Writes protocol buffers, as far as ONNX files and TensorBoard's events need them. LibTorch has a protobuf library
// inside, and a process bears only one.
//
// Wire format: https://protobuf.dev/programming-guides/encoding. A message is a run of fields, each a number with the
// kind of its value, and the value: a variable-length integer, four or eight bytes, or a length and so many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"

namespace ddpm::base {

class ProtoMessage {
 public:
  void add(int field, int64_t number);
  void add(int field, float number);
  void add(int field, double number);
  void add(int field, std::string_view text);
  void add(int field, ProtoMessage message);
  /// Takes no copy: the bytes outlive the message.
  void add_bytes(int field, std::span<const std::byte> bytes);

  [[nodiscard]] uint64_t size() const { return size_; }
  void write(WritableFile& file) const;
  /// The bytes of the message.
  [[nodiscard]] std::string bytes() const;

 private:
  /// Own bytes, then borrowed ones.
  struct BytesPiece {
    std::string own;
    std::span<const std::byte> borrowed = {};
  };
  void put_varint(uint64_t number);
  void put_tag(int field, int kind);
  template <typename Unsigned>
  void put_little_endian(Unsigned bits);
  std::string& own();

  std::vector<BytesPiece> pieces_;
  uint64_t size_ = 0;
};

}  // namespace ddpm::base
