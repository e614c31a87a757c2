#include "doctor/greeting.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <fmt/format.h>

#include "base/version.h"
#include "doctor/groups.h"
#include "doctor/process_facts.h"

namespace ddpm::doctor {
namespace {

template <std::size_t N>
void put(std::array<char, N>& field, const std::string& text) {
  text.copy(field.data(), N - 1);
}

}  // namespace

Greeting make_greeting(const std::string& options, const std::string& host) {
  Greeting own;
  put(own.version, base::kVersion);
  put(own.program, program_hash());
  put(own.options, options);
  put(own.host, host);
  return own;
}

std::vector<Greeting> exchange_greetings(comm::Communicator& world, const Greeting& own) {
  std::vector<Greeting> all(static_cast<std::size_t>(world.size()));
  world
      .all_gather({&own, sizeof(own), base::DType::u8},
                  {all.data(), static_cast<int64_t>(all.size() * sizeof(Greeting)), base::DType::u8})
      .wait();
  return all;
}

std::vector<Finding> judge_greetings(const std::vector<Greeting>& all) {
  std::vector<std::string> hosts;
  hosts.reserve(all.size());
  for (const Greeting& one : all) hosts.emplace_back(one.host.data());
  std::vector<Finding> findings;
  const auto expect_same = [&](const std::function<std::string(const Greeting&)>& value, const std::string& what,
                               const std::string& advice) {
    std::vector<std::string> values;
    values.reserve(all.size());
    for (const Greeting& one : all) values.push_back(value(one));
    const auto groups = group_ranks(values, hosts);
    if (groups.size() < 2) return;
    findings.push_back({Severity::problem, Area::versions, fmt::format("{}: {}", what, groups_text(groups)), advice});
  };
  const auto named = [](const Greeting& one) {
    return fmt::format("{}, file {:.12}", one.version.data(), one.program.data());
  };
  expect_same(named, "ranks run different programs",
              "start one file on all nodes: give ddpm by its absolute path on a shared file system, or copy it again");
  expect_same([](const Greeting& one) { return std::string(one.options.data()); }, "ranks have different options",
              "give every rank the same command line");
  return findings;
}

}  // namespace ddpm::doctor
