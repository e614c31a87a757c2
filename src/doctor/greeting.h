// The first words that ranks exchange: who they are, in a frame whose size no version of the program changes. Ranks of
// different programs may disagree on everything else, and wait for each other for ever.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "doctor/finding.h"

namespace ddpm::doctor {

/// Texts, cut to their fields and ended by a zero byte. Sent as it lies in memory: nothing in it may ever move or grow.
struct Greeting {
  std::array<char, 16> greeting{'d', 'd', 'p', 'm', ' ', 'd', 'o', 'c', 't', 'o', 'r', '\0'};
  std::array<char, 48> version{};
  std::array<char, 128> program{};  ///< SHA-256 of the program's file, in hexadecimal
  std::array<char, 128> options{};  ///< of the command line, which all ranks must share
  std::array<char, 256> host{};
};
static_assert(sizeof(Greeting) == 576);

Greeting make_greeting(const std::string& options);

/// Every rank's, in rank order. Collective.
std::vector<Greeting> exchange_greetings(comm::Communicator& world, const Greeting& own);

/// Problems that forbid to go on: ranks of another program, or with other options.
std::vector<Finding> judge_greetings(const std::vector<Greeting>& all);

}  // namespace ddpm::doctor
