// Lists of CPUs, ranks and hosts, as Linux and Slurm write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddpm::doctor {

/// "0-3,8": of numbers in ascending order; "" of none.
std::string ranges_text(const std::vector<int>& numbers);
/// The numbers of "0-3,8\n", as the kernel writes CPU lists; what cannot be read is left out.
std::vector<int> parse_ranges(std::string_view text);

/// "node[01-03,07],login1": names that differ in their last number only, and write it with as many digits, are one
/// entry. Each name once, in the order in which its entry first comes.
std::string hosts_text(const std::vector<std::string>& hosts);

}  // namespace ddpm::doctor
