// Ranks open files together and read independently.
#include <numeric>

#include <gmock/gmock.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "h5/file.h"
#include "support/mpi_test.h"
#include "support/temporary_folder.h"

namespace ddpm::h5 {
namespace {

using testing::HasSubstr;

/// One folder, made and removed by rank 0.
class ParallelFileTest : public testing::Test {
 protected:
  void SetUp() override {
    if (test::world().rank() == 0) own_ = std::make_unique<test::TemporaryFolder>();
    folder_ = comm::broadcast(test::world(), own_ ? own_->path().string() : "");
    if (own_) {
      write("a.h5", 100, 0);
      write("b.h5", 50, 1000);
    }
    comm::barrier(test::world());
  }
  void TearDown() override { comm::barrier(test::world()); }

  void write(const char* name, int64_t rows, int64_t from) const {
    base::posix_file_system()->create_exclusive(folder_ / name)->close();
    File file = File::create(folder_ / name, {});
    Array data = file.create_array("/rows", Element::i64, std::vector<int64_t>{rows});
    std::vector<int64_t> values(static_cast<std::size_t>(rows));
    std::iota(values.begin(), values.end(), from);
    data.write_rows(0, rows, std::as_bytes(std::span(values)));
  }

  std::unique_ptr<test::TemporaryFolder> own_;
  Path folder_;
};

int64_t row(const Array& data, int64_t index) {
  int64_t value = -1;
  data.read_rows(index, 1, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

TEST_F(ParallelFileTest, RanksReadWhatAndWhenTheyLike) {
  auto& world = test::world();
  const std::vector<Path> paths = {folder_ / "a.h5", folder_ / "b.h5"};
  std::vector<File> files = File::open_parallel(world, paths);
  Array a = files[0].array("/rows");
  Array b = files[1].array("/rows");
  // Another number of reads on each rank: a collective read would hang.
  for (int64_t i = 0; i <= 10 * world.rank(); ++i) {
    EXPECT_EQ(row(a, 99 - i), 99 - i);
    EXPECT_EQ(row(b, i), 1000 + i);
  }
  a.close();
  b.close();
  for (File& file : files) file.close();
}

TEST_F(ParallelFileTest, AllRanksLearnOfAFileThatCannotBeOpened) {
  const std::vector<Path> paths = {folder_ / "a.h5", folder_ / "absent.h5"};
  try {
    static_cast<void>(File::open_parallel(test::world(), paths));
    FAIL() << "accepted";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::dataset);
    EXPECT_THAT(error.what(), HasSubstr("absent.h5: cannot open: "));
  }
  // The communicator still works, and the other file was closed.
  EXPECT_EQ(comm::all_reduce(test::world(), int64_t{1}, comm::ReduceOp::sum), test::world().size());
}

TEST_F(ParallelFileTest, FilesThatAreNotClosedAreLeftToTheEndOfMpi) {
  const std::vector<Path> paths = {folder_ / "a.h5"};
  const std::vector<File> files = File::open_parallel(test::world(), paths);
  const Array data = files[0].array("/rows");
  EXPECT_EQ(row(data, 5), 5);
}

}  // namespace
}  // namespace ddpm::h5
