#include "base/protobuf.h"

#include <bit>
#include <iterator>
#include <utility>

namespace ddpm::base {
namespace {

constexpr int kVarint = 0;
constexpr int kLengthPrefixed = 2;
constexpr int kEightBytes = 1;
constexpr int kFourBytes = 5;

}  // namespace

std::string& ProtoMessage::own() {
  if (pieces_.empty() || !pieces_.back().borrowed.empty()) pieces_.emplace_back();
  return pieces_.back().own;
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
void ProtoMessage::put_varint(uint64_t number) {
  std::string& bytes = own();
  const std::size_t before = bytes.size();
  for (; number >= 0x80U; number >>= 7U) bytes += static_cast<char>((number & 0x7FU) | 0x80U);
  bytes += static_cast<char>(number);
  size_ += bytes.size() - before;
}

void ProtoMessage::put_tag(int field, int kind) {
  put_varint(static_cast<uint64_t>(field) * 8U + static_cast<uint64_t>(kind));
}

void ProtoMessage::add(int field, int64_t number) {
  put_tag(field, kVarint);
  put_varint(static_cast<uint64_t>(number));
}

template <typename Unsigned>
void ProtoMessage::put_little_endian(Unsigned bits) {
  for (unsigned shift = 0; shift < 8 * sizeof bits; shift += 8) own() += static_cast<char>((bits >> shift) & 0xFFU);
  size_ += sizeof bits;
}

void ProtoMessage::add(int field, float number) {
  put_tag(field, kFourBytes);
  put_little_endian(std::bit_cast<uint32_t>(number));
}

void ProtoMessage::add(int field, double number) {
  put_tag(field, kEightBytes);
  put_little_endian(std::bit_cast<uint64_t>(number));
}

void ProtoMessage::add(int field, std::string_view text) {
  put_tag(field, kLengthPrefixed);
  put_varint(text.size());
  own() += text;
  size_ += text.size();
}

void ProtoMessage::add(int field, ProtoMessage message) {
  put_tag(field, kLengthPrefixed);
  put_varint(message.size_);
  size_ += message.size_;
  std::move(message.pieces_.begin(), message.pieces_.end(), std::back_inserter(pieces_));
}

void ProtoMessage::add_bytes(int field, std::span<const std::byte> bytes) {
  put_tag(field, kLengthPrefixed);
  put_varint(bytes.size());
  pieces_.back().borrowed = bytes;
  size_ += bytes.size();
}

void ProtoMessage::write(WritableFile& file) const {
  for (const BytesPiece& piece : pieces_) {
    file.write(piece.own);
    file.write(piece.borrowed);
  }
}

std::string ProtoMessage::bytes() const {
  std::string all;
  all.reserve(size_);
  for (const BytesPiece& piece : pieces_) {
    all += piece.own;
    for (const std::byte byte : piece.borrowed) all += static_cast<char>(byte);
  }
  return all;
}

}  // namespace ddpm::base
