#include "denoise/shared_weights.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "comm/collectives.h"
#include "device/peak_memory.h"
#include "support/bytes_read.h"
#include "support/mpi_test.h"
#include "support/temporary_folder.h"

namespace ddpm::denoise {
namespace {

constexpr int64_t kWeights = 64;
constexpr int64_t kElements = int64_t{1} << 20;
constexpr int64_t kFileBytes = kWeights * kElements * 4;  // 256 MiB

comm::Communicator& world() { return test::world(); }

std::string name_of(int64_t weight) { return fmt::format("w{:02}", weight); }

interop::ExpectedShapes expected() {
  interop::ExpectedShapes shapes;
  for (int64_t i = 0; i < kWeights; ++i) shapes[name_of(i)] = {kElements};
  return shapes;
}

/// A model folder whose weights begin with their numbers, and hold zeros otherwise: the file has holes.
void write_model(const std::filesystem::path& folder) {
  std::string header = "{";
  for (int64_t i = 0; i < kWeights; ++i) {
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", i > 0 ? "," : "",
                          name_of(i), kElements, i * kElements * 4, (i + 1) * kElements * 4);
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  test::write_text(folder / "config.json", "{}");
  const auto path = folder / "diffusion_pytorch_model.safetensors";
  const auto length = static_cast<uint64_t>(header.size());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << header;
  const auto begin = static_cast<int64_t>(sizeof(length) + header.size());
  for (int64_t i = 0; i < kWeights; ++i) {
    const auto first = static_cast<float>(i);
    file.seekp(begin + i * kElements * 4);
    file.write(reinterpret_cast<const char*>(&first), sizeof(first));
  }
  file.close();
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(begin + kFileBytes));
}

TEST(SharedWeights, AreReadOnceAndHeldOneAtATime) {
  const test::TemporaryFolder own;
  const base::Path folder = comm::broadcast(world(), own.path().string());
  if (world().rank() == 0) write_model(folder);
  comm::barrier(world());
  const int64_t read_before = test::bytes_read();
  const int64_t peak_before = device::peak_resident_bytes();
  int64_t seen = 0;
  SharedWeights(folder, expected(), world()).for_each([&](const std::string& name, const at::Tensor& values) {
    EXPECT_EQ(name, name_of(seen));
    ASSERT_EQ(values.numel(), kElements);
    EXPECT_EQ(values[0].item<float>(), static_cast<float>(seen));
    EXPECT_EQ(values.sum().item<float>(), static_cast<float>(seen));
    ++seen;
  });
  EXPECT_EQ(seen, kWeights);
  EXPECT_LT(device::peak_resident_bytes() - peak_before, kFileBytes / 4);
  const int64_t read = comm::all_reduce(world(), test::bytes_read() - read_before, comm::ReduceOp::sum);
  EXPECT_GE(read, kFileBytes);
  EXPECT_LT(read, kFileBytes + kFileBytes / 8);
  comm::barrier(world());
}

TEST(SharedWeights, AFileThatDoesNotFitIsOneErrorOfAllRanks) {
  const test::TemporaryFolder own;
  const base::Path folder = comm::broadcast(world(), own.path().string());
  if (world().rank() == 0) write_model(folder);
  comm::barrier(world());
  auto shapes = expected();
  shapes["w99"] = {1};
  try {
    const SharedWeights opened(folder, shapes, world());
    ADD_FAILURE() << "a weight that is missing was not missed";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::output);
    EXPECT_THAT(error.what(), testing::HasSubstr("missing: w99"));
    EXPECT_EQ(error.speaks(), world().rank() == 0);
  }
  comm::barrier(world());
}

}  // namespace
}  // namespace ddpm::denoise
