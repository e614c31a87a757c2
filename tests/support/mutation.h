// Files changed at random, as a disk, a transfer or an enemy might change them, and the loading of each in a process of
// its own, so that a crash and a hang are outcomes like any other. All changes follow from a seed.
//
// What is loaded must be refused, or have all its values: `wrong`, `crashed` and `hung` must stay 0.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

namespace ddpm::test {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : generator_(seed) {}

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(generator_); }

  /// One to three changes of `text`, which differs afterwards. `other` gives blocks from elsewhere.
  std::string changed(const std::string& text, const std::string& other) {
    std::string result = text;
    for (std::size_t times = 1 + below(3); times > 0 || result == text; times -= times > 0 ? 1 : 0) {
      change(result, other);
    }
    return result;
  }

 private:
  char byte() { return static_cast<char>(below(256)); }
  /// Draws a number of any order of magnitude up to `most`, at least 1.
  std::size_t length(std::size_t most) { return 1 + below(std::min(most, std::size_t{1} << below(14))); }

  void change(std::string& text, const std::string& other) {
    if (text.empty()) return text.push_back(byte());
    const std::size_t at = below(text.size());
    const std::size_t n = length(text.size() - at);
    switch (below(9)) {
      case 0:
      case 1: {
        const unsigned flipped = static_cast<unsigned char>(text[at]) ^ (1U << below(8));
        text[at] = static_cast<char>(flipped);
        break;
      }
      case 2:
        text[at] = byte();
        break;
      case 3:
        for (std::size_t i = at; i < at + n; ++i) text[i] = byte();
        break;
      case 4:
        text.replace(at, n, n, below(2) == 0 ? '\0' : '\xff');  // what a lost page reads as
        break;
      case 5:
        text.resize(at);
        break;
      case 6:
        text.insert(at, other.substr(below(other.size() + 1), n));
        break;
      case 7:
        text.erase(at, n);
        break;
      default: {
        const std::size_t to = below(text.size() - n + 1);
        const std::string block = text.substr(at, n);
        text.replace(at, n, text.substr(to, n));
        text.replace(to, n, block);
      }
    }
  }

  std::mt19937_64 generator_;
};

enum class Outcome : int { detected = 10, harmless = 11, wrong = 12, crashed = 13, hung = 14 };

inline const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::detected:
      return "detected";
    case Outcome::harmless:
      return "harmless";
    case Outcome::wrong:
      return "wrong";
    case Outcome::crashed:
      return "crashed";
    case Outcome::hung:
      return "hung";
  }
  return "unknown";
}

/// Runs `load` in a child process; what it returns, or how it ended. It has 20 s.
template <typename Load>
Outcome in_a_process_of_its_own(const Load& load) {
  constexpr unsigned kSeconds = 20;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kSeconds);
    ::_exit(static_cast<int>(load()));
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return Outcome::crashed;
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? Outcome::hung : Outcome::crashed;
  const int code = WEXITSTATUS(status);
  const bool known = code >= static_cast<int>(Outcome::detected) && code <= static_cast<int>(Outcome::wrong);
  return known ? static_cast<Outcome>(code) : Outcome::crashed;
}

/// Counts outcomes per kind of file, and prints them.
class Tally {
 public:
  void add(const std::string& kind, Outcome outcome, uint64_t trial) {
    ++counts_[kind][outcome];
    if (outcome == Outcome::detected || outcome == Outcome::harmless) return;
    ++bad_;
    std::printf("trial %llu of %s: %s\n", static_cast<unsigned long long>(trial), kind.c_str(), name_of(outcome));
  }
  /// 0 when everything was detected or harmless.
  [[nodiscard]] int report() const {
    std::map<Outcome, uint64_t> all;
    for (const auto& [kind, outcomes] : counts_) {
      print(kind, outcomes);
      for (const auto& [outcome, count] : outcomes) all[outcome] += count;
    }
    print("all", all);
    return bad_ == 0 && !counts_.empty() ? 0 : 1;
  }

 private:
  static void print(const std::string& kind, const std::map<Outcome, uint64_t>& outcomes) {
    std::printf("%-14s", kind.c_str());
    for (const Outcome o : {Outcome::detected, Outcome::harmless, Outcome::wrong, Outcome::crashed, Outcome::hung}) {
      const auto found = outcomes.find(o);
      std::printf("  %s %llu", name_of(o),
                  found == outcomes.end() ? 0ULL : static_cast<unsigned long long>(found->second));
    }
    std::printf("\n");
  }

  std::map<std::string, std::map<Outcome, uint64_t>> counts_;
  uint64_t bad_ = 0;
};

/// The number behind `option` on the command line, or `otherwise`.
inline uint64_t option(int argc, char** argv, std::string_view option, uint64_t otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == option) return std::strtoull(argv[i + 1], nullptr, 10);
  }
  return otherwise;
}

}  // namespace ddpm::test
