// Tests the undoing of filters on bytes that nobody wrote: peers_test.py compares what others write.
#include "h5/filters.h"

#include <array>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include "base/error.h"

namespace ddpm::h5 {
namespace {

using base::DatasetError;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kChunk = 1000;
constexpr Filter kGzip = {.id = 1};
constexpr Filter kFletcher32 = {.id = 3};
constexpr Filter kLzf = {.id = 32000};
constexpr Filter kLz4 = {.id = 32004};
constexpr Filter kZstd = {.id = 32015};

Bytes chunk_values() {
  Bytes values(kChunk);
  for (std::size_t i = 0; i < kChunk; ++i) values[i] = static_cast<std::byte>(i / 8 % 64);
  return values;
}

void append_number(Bytes& to, uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

/// LZ4 in blocks of 300 bytes, as the registered filter lays it out.
Bytes lz4_of(const Bytes& values) {
  constexpr std::size_t kBlock = 300;
  Bytes all;
  append_number(all, values.size(), 8);
  append_number(all, kBlock, 4);
  for (std::size_t done = 0; done < values.size(); done += kBlock) {
    const auto size = static_cast<int>(std::min(kBlock, values.size() - done));
    Bytes packed(static_cast<std::size_t>(LZ4_compressBound(size)));
    const int got = LZ4_compress_default(reinterpret_cast<const char*>(&values[done]),
                                         reinterpret_cast<char*>(packed.data()), size, static_cast<int>(packed.size()));
    append_number(all, static_cast<uint64_t>(got), 4);
    all.insert(all.end(), packed.begin(), packed.begin() + got);
  }
  return all;
}

/// What bitshuffle with a codec writes before blocks of so many bytes.
Bytes bitshuffle_head(uint64_t block) {
  Bytes head;
  append_number(head, kChunk, 8);
  append_number(head, block, 4);
  return head;
}

/// LZF in runs of 8 bytes: the first 512 bytes as they are, then copies of what lies 512 before, as in chunk_values().
Bytes lzf_of(const Bytes& values) {
  constexpr std::size_t kRun = 8;
  Bytes all;
  for (std::size_t at = 0; at < values.size(); at += kRun) {
    const std::span<const std::byte> run = std::span(values).subspan(at, std::min(kRun, values.size() - at));
    const bool is_copy = at >= 512 && run.size() == kRun;
    if (is_copy) {  // of 8 values from a distance of 512
      append_number(all, (6U << 5U) | 1U, 1);
      append_number(all, 255, 1);
      continue;
    }
    append_number(all, run.size() - 1, 1);
    all.insert(all.end(), run.begin(), run.end());
  }
  return all;
}

/// A chunk in one block with LZ4; which values it has does not matter.
Bytes bitshuffled() {
  const Bytes values = chunk_values();
  Bytes packed(static_cast<std::size_t>(LZ4_compressBound(kChunk)));
  const int size =
      LZ4_compress_default(reinterpret_cast<const char*>(values.data()), reinterpret_cast<char*>(packed.data()),
                           static_cast<int>(kChunk - kChunk % 32), static_cast<int>(packed.size()));
  Bytes all = bitshuffle_head(kChunk / 32 * 32);
  append_number(all, static_cast<uint64_t>(size), 4);
  all.insert(all.end(), packed.begin(), packed.begin() + size);
  all.resize(all.size() + kChunk % 32);
  return all;
}

Bytes gzip_of(const Bytes& values) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(4);
  Bytes packed(libdeflate_zlib_compress_bound(compressor, values.size()));
  packed.resize(libdeflate_zlib_compress(compressor, values.data(), values.size(), packed.data(), packed.size()));
  libdeflate_free_compressor(compressor);
  return packed;
}

Bytes zstd_of(const Bytes& values) {
  Bytes packed(ZSTD_compressBound(values.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), values.data(), values.size(), 3));
  return packed;
}

std::string refusal(const std::vector<Filter>& filters, const Bytes& data, uint32_t skipped = 0) {
  ChunkDecoder decoder(filters, kChunk);
  Bytes values(kChunk);
  try {
    decoder.decode(skipped, "a chunk", data, values);
  } catch (const DatasetError& error) {
    return error.what();
  }
  return values == chunk_values() ? "" : "other values";
}

TEST(FiltersTest, WhatIsPackedComesBack) {
  EXPECT_EQ(refusal({kGzip}, gzip_of(chunk_values())), "");
  EXPECT_EQ(refusal({kLzf}, lzf_of(chunk_values())), "");
  EXPECT_EQ(refusal({kLz4}, lz4_of(chunk_values())), "");
  EXPECT_EQ(refusal({kZstd}, zstd_of(chunk_values())), "");
  EXPECT_EQ(refusal({}, chunk_values()), "");
}

TEST(FiltersTest, ASkippedFilterIsNotUndone) { EXPECT_EQ(refusal({kGzip, kLz4}, lz4_of(chunk_values()), 1), ""); }

TEST(FiltersTest, WhatGivesMoreThanAChunkIsRefusedWithoutItsMemory) {
  const Bytes bomb(std::size_t{1} << 22U);
  EXPECT_EQ(refusal({kGzip}, gzip_of(bomb)), "a chunk: gzip gives more than 1000 bytes");
  EXPECT_EQ(refusal({kLz4}, lz4_of(bomb)), "a chunk: LZ4 gives 4194304 bytes, 1000 are wanted");
  EXPECT_THAT(refusal({kZstd}, zstd_of(bomb)), HasSubstr("damaged Zstandard"));
}

TEST(FiltersTest, WhatGivesLessThanAChunkIsRefused) {
  const Bytes few(10);
  EXPECT_EQ(refusal({kGzip}, gzip_of(few)), "a chunk: gzip gives 10 bytes, 1000 are wanted");
  EXPECT_EQ(refusal({kLz4}, lz4_of(few)), "a chunk: LZ4 gives 10 bytes, 1000 are wanted");
  EXPECT_EQ(refusal({kZstd}, zstd_of(few)), "a chunk: Zstandard gives 10 bytes, 1000 are wanted");
  EXPECT_EQ(refusal({}, few), "a chunk: it has 10 bytes, 1000 are wanted");
  EXPECT_EQ(refusal({kFletcher32}, Bytes(3)), "a chunk: 3 bytes hold no checksum");
}

TEST(FiltersTest, AChangedChecksumIsRefused) {
  EXPECT_THAT(refusal({kFletcher32}, Bytes(kChunk + 4, std::byte{1})), HasSubstr("01010101 is stored"));
}

TEST(FiltersTest, LzfThatNobodyWroteIsRefused) {
  const auto bytes = [](std::initializer_list<int> list) {
    Bytes all;
    for (const int b : list) all.push_back(static_cast<std::byte>(b));
    return all;
  };
  EXPECT_EQ(refusal({kLzf}, bytes({2, 1, 1})), "a chunk: damaged LZF after 0 of 1000 bytes");   // a value is missing
  EXPECT_EQ(refusal({kLzf}, bytes({0, 1, 32})), "a chunk: damaged LZF after 1 of 1000 bytes");  // the distance is
  EXPECT_EQ(refusal({kLzf}, bytes({0, 1, 224, 0})), "a chunk: damaged LZF after 1 of 1000 bytes");   // so it is here
  EXPECT_EQ(refusal({kLzf}, bytes({0, 1, 32, 1})), "a chunk: damaged LZF after 1 of 1000 bytes");    // nothing is there
  EXPECT_EQ(refusal({kLzf}, bytes({0, 1, 32, 0})), "a chunk: LZF gives 4 bytes, 1000 are wanted");   // 1 and 3 copies
  EXPECT_EQ(refusal({kLzf}, lzf_of(Bytes(1008))), "a chunk: damaged LZF after 1000 of 1000 bytes");  // too many
}

TEST(FiltersTest, BlocksOfNoBytesAreRefused) {
  Bytes data;
  append_number(data, kChunk, 8);
  append_number(data, 0, 4);
  EXPECT_EQ(refusal({kLz4}, data), "a chunk: LZ4 in blocks of 0 bytes");
}

TEST(FiltersTest, ShufflesOfNoBytesAreUnknown) {
  EXPECT_FALSE(can_undo({.id = 2, .values = {0}}));
  EXPECT_FALSE(can_undo({.id = 2}));
  EXPECT_TRUE(can_undo({.id = 2, .values = {4}}));
}

TEST(FiltersTest, BitshuffleIsKnownByItsParameters) {
  EXPECT_TRUE(can_undo({.id = 32008, .values = {0, 5, 4}}));
  EXPECT_TRUE(can_undo({.id = 32008, .values = {0, 5, 4, 64, 2}}));
  EXPECT_FALSE(can_undo({.id = 32008, .values = {0, 5}}));
  EXPECT_FALSE(can_undo({.id = 32008, .values = {0, 5, 0, 0, 2}}));
  EXPECT_FALSE(can_undo({.id = 32008, .values = {0, 5, 4, 63, 2}}));
  EXPECT_FALSE(can_undo({.id = 32008, .values = {0, 5, 4, 0, 7}}));
}

TEST(FiltersTest, BitshuffledBytesThatNobodyWroteAreRefused) {
  const Filter packed = {.id = 32008, .values = {0, 5, 4, 0, 2}};
  EXPECT_EQ(refusal({packed}, Bytes(5)), "a chunk: 5 bytes are too few for bitshuffle");
  EXPECT_EQ(refusal({packed}, Bytes(20)), "a chunk: bitshuffle gives 0 bytes, 1000 are wanted");
  EXPECT_EQ(refusal({packed}, bitshuffle_head(64)), "a chunk: bitshuffle lacks a block");
  EXPECT_EQ(refusal({packed}, bitshuffle_head(36)), "a chunk: bitshuffle in blocks of 9");
  EXPECT_EQ(refusal({{.id = 32008, .values = {0, 5, 4}}}, Bytes(999)),
            "a chunk: bitshuffle gives 999 bytes, 1000 are wanted");
}

TEST(FiltersTest, DamagedBytesGiveAChunkOrAnError) {
  std::mt19937 random(0);
  const std::vector<std::pair<std::vector<Filter>, Bytes>> cases = {
      {{{.id = 2, .values = {7}}, kGzip}, gzip_of(chunk_values())},
      {{{.id = 2, .values = {4}}, kLz4}, lz4_of(chunk_values())},
      {{kLzf}, lzf_of(chunk_values())},
      {{kZstd}, zstd_of(chunk_values())},
      {{{.id = 32008, .values = {0, 5, 4, 0, 2}}}, bitshuffled()},
      {{{.id = 32008, .values = {0, 5, 4}}}, chunk_values()}};
  for (const auto& [filters, packed] : cases) {
    ChunkDecoder decoder(filters, kChunk);
    Bytes values(kChunk);
    for (int i = 0; i < 5000; ++i) {
      Bytes data = packed;
      if (i % 3 == 0) data.resize(random() % (data.size() + 1));
      for (std::size_t n = random() % 4; n > 0 && !data.empty(); --n) {
        data[random() % data.size()] = static_cast<std::byte>(random());
      }
      try {
        decoder.decode(0, "a chunk", data, values);
      } catch (const DatasetError&) {
        continue;
      }
    }
  }
}

}  // namespace
}  // namespace ddpm::h5
