// What signals mean while a run listens to them and afterwards; fault_test.py sends them to whole programs.
#include <csignal>
#include <cstdlib>

#include <gmock/gmock.h>

#include "base/log.h"
#include "run/fault.h"
#include "run/interruption.h"
#include "run/signal_news.h"

namespace ddpm::run {
namespace {

using Handler = void (*)(int);

Handler handler_of(int number) {
  struct sigaction now = {};
  ::sigaction(number, nullptr, &now);
  return now.sa_handler;
}

TEST(StopRequest, GivesSignalsBackTheMeaningTheyHad) {
  const Handler before = std::signal(SIGUSR1, SIG_IGN);  // as a batch script's `trap '' USR1` does
  for (const bool held : {false, true}) {
    if (held) hold_stop_signals();
    FaultConfig config;
    config.stop_signals = {"USR1", "HUP"};
    {
      const StopRequest stop(config);
      EXPECT_NE(handler_of(SIGUSR1), SIG_IGN);
      EXPECT_NE(handler_of(SIGHUP), SIG_DFL);
      EXPECT_EQ(handler_of(SIGUSR2), SIG_DFL);
    }
    EXPECT_EQ(handler_of(SIGUSR1), SIG_IGN);
    EXPECT_EQ(handler_of(SIGHUP), SIG_DFL);
  }
  std::signal(SIGUSR1, before);
}

TEST(StopRequest, ASignalThatIsNotWantedAndWasIgnoredBeforeDoesNotStopTheRun) {
  const Handler before = std::signal(SIGUSR1, SIG_IGN);
  hold_stop_signals();
  std::raise(SIGUSR1);
  EXPECT_EQ(received_stop_signal(), "SIGUSR1");
  FaultConfig config;
  config.stop_signals = {"TERM"};
  {
    const StopRequest stop(config);
    EXPECT_EQ(received_stop_signal(), "");
    EXPECT_EQ(stop.votes().front(), 0.0);
    EXPECT_EQ(handler_of(SIGUSR1), SIG_IGN);
  }
  std::signal(SIGUSR1, before);
}

TEST(StopRequest, OneThatIsNotWantedActsThoughAnotherHasComeSince) {
  EXPECT_EXIT(
      {
        hold_stop_signals();
        std::raise(SIGUSR1);
        std::raise(SIGTERM);
        FaultConfig config;
        config.stop_signals = {"TERM"};
        const StopRequest stop(config);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGUSR1), "");
}

TEST(Interruption, OneThatComesAtItsEndIsNotLost) {
  const auto interrupted_at_the_end = [] {
    const base::Logger log(0, 1);
    {
      const Interruption interruption(log);
      std::raise(SIGINT);  // its thread may not have begun to wait
    }
    std::_Exit(0);
  };
  for (int i = 0; i < 10; ++i) {
    EXPECT_EXIT(interrupted_at_the_end(), testing::KilledBySignal(SIGINT), "interrupted by SIGINT after step 0");
  }
}

TEST(Interruption, AtItsEndTheSignalMeansWhatItMeantBefore) {
  for (const Handler before : {SIG_DFL, SIG_IGN}) {
    std::signal(SIGINT, before);
    const base::Logger log(0, 1);
    { const Interruption interruption(log); }
    EXPECT_EQ(handler_of(SIGINT), before);
  }
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace
}  // namespace ddpm::run
