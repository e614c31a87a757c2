// The first message that ranks exchange says who they are, in a frame of a size that no version of the program changes.
// Ranks of different programs may disagree on everything else, and then wait for each other for ever.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "doctor/finding.h"

namespace ddpm::doctor {

/// Texts are cut to their fields and end with a zero byte. A greeting is sent as it lies in memory, so no field may
/// ever move or grow.
struct Greeting {
  std::array<char, 16> greeting{'d', 'd', 'p', 'm', ' ', 'd', 'o', 'c', 't', 'o', 'r', '\0'};
  std::array<char, 48> version{};
  std::array<char, 128> program{};  ///< SHA-256 of the program's file, in hexadecimal
  std::array<char, 128> options{};  ///< hash of the command line's options, which all ranks must share
  std::array<char, 256> host{};
};
static_assert(sizeof(Greeting) == 576);

Greeting make_greeting(const std::string& options, const std::string& host);

/// Returns every rank's greeting, in rank order. Collective.
std::vector<Greeting> exchange_greetings(comm::Communicator& world, const Greeting& own);

/// Returns the problems that prevent the examination: ranks of another program, or with other options.
std::vector<Finding> judge_greetings(const std::vector<Greeting>& all);

}  // namespace ddpm::doctor
