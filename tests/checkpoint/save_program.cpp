// What syscall_kills.py kills, and what it asks afterwards.
//
//   checkpoint_save_program save RUN TRACED STEP:VALUES...
//       Saves each, keeping the two newest, and prints "ACKNOWLEDGED STEP:VALUES" after it. Before the last one, rank
//       TRACED (-1: none) prints "READY PID" and waits until it is traced and RUN.go exists.
//   checkpoint_save_program verify RUN
//       Loads every checkpoint and compares each element; prints "FOUND STEP:VALUES", newest first. Then saves one more
//       and looks for leftovers. Exit code 1 when anything is not whole.
//
// Every element is a function of its tensor, its position and VALUES.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "checkpoint/store_fixture.h"
#include "comm/mpi_session.h"

namespace ddpm::checkpoint {
namespace {

struct Saved {
  int64_t step = 0;
  int64_t values = 0;
};

int64_t parse_integer(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) throw base::ConfigError("'{}' is no integer", text);
  return value;
}

Saved parse_saved(const std::string& text) {
  const std::size_t colon = text.find(':');
  return {parse_integer(text.substr(0, colon)), parse_integer(text.substr(colon + 1))};
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// Makes a traced call that fails, again and again, until the process that waits to see it in the trace makes `go`.
/// Calls that a save makes come after that, none before: they can be counted.
void wait_until_traced(const base::Path& go) {
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // where only parents may trace; refused where it means nothing
  say(fmt::format("READY {}", ::getpid()));
  while (::access(go.c_str(), F_OK) != 0) {
    if (::truncate("", 0) == 0) throw base::OutputError("truncate of no file succeeded");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// Saves, and keeps two.
void save_two(CheckpointStore& store, comm::Communicator& comm, const Saved& saved) {
  save_values(store, comm, saved.step, saved.values, {.keep_latest = 2});
}

void save_all(CheckpointStore& store, comm::Communicator& comm, int64_t traced, const base::Path& go,
              std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i + 1 == words.size()) {
      if (comm.rank() == traced) wait_until_traced(go);
      comm::barrier(comm);
    }
    save_two(store, comm, parse_saved(words[i]));
    if (comm.rank() == 0) say("ACKNOWLEDGED " + words[i]);
  }
}

/// The newest step, 0 when there is none.
int64_t expect_all_whole(CheckpointStore& store, const base::FileSystem& files, const base::Path& checkpoints) {
  int64_t newest = 0;
  for (const std::string& name : candidate_folders(files, checkpoints)) {
    const Checkpoint checkpoint = store.open(checkpoints / name);
    const auto values = checkpoint.manifest.state.at("values").get<int64_t>();
    expect_loads(store, checkpoint, values);
    say(fmt::format("FOUND {}:{}", checkpoint.manifest.step, values));
    newest = std::max(newest, checkpoint.manifest.step);
  }
  return newest;
}

void verify(CheckpointStore& store, comm::Communicator& comm, const base::FileSystem& files, const base::Path& run) {
  const base::Path checkpoints = run / kCheckpointsName;
  const int64_t newest = expect_all_whole(store, files, checkpoints);
  const auto found = store.find();
  EXPECT_EQ(found ? found->manifest.step : 0, newest);
  save_two(store, comm, {newest + 1, newest + 1});
  expect_loads(store, store.open(checkpoints / step_folder_name(newest + 1)), newest + 1);
  for (const std::string& name : files.list(run)) EXPECT_TRUE(name == "LATEST" || name == "checkpoints") << name;
  for (const std::string& name : files.list(checkpoints)) EXPECT_TRUE(parse_step_folder(name)) << name;
}

void run(comm::MpiSession& session, const std::vector<std::string>& words) {
  if (words.size() < 2) throw base::ConfigError("save RUN TRACED STEP:VALUES... or verify RUN is wanted");
  const auto files = base::posix_file_system();
  const base::Logger logger(session.rank(), session.size());
  CheckpointStore store(*files, session.world(), words[1], logger);
  if (words[0] == "verify") {
    verify(store, session.world(), *files, words[1]);
  } else {
    save_all(store, session.world(), parse_integer(words.at(2)), words[1] + ".go", std::span(words).subspan(3));
  }
}

}  // namespace
}  // namespace ddpm::checkpoint

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  ddpm::comm::MpiSession session(argc, argv);
  try {
    ddpm::checkpoint::run(session, std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  session.finalize();
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}
