#include "comm/node_names.h"

#include <map>

#include "base/host_name.h"
#include "comm/job.h"

namespace ddpm::comm {

std::string host_lines() { return base::host_name() + '\n' + process_environment()("SLURMD_NODENAME").value_or(""); }

std::vector<std::string> node_names(const std::vector<std::string>& lines) {
  std::vector<std::string> hosts;
  std::vector<std::string> nodes;
  std::map<std::string, std::string> host_of_node;
  bool is_slurms = true;
  for (const std::string& said : lines) {
    const std::size_t end = said.find('\n');
    const std::string& host = hosts.emplace_back(said.substr(0, end));
    const std::string& node = nodes.emplace_back(said.substr(end + 1));
    is_slurms = is_slurms && !node.empty() && host_of_node.emplace(node, host).first->second == host;
  }
  return is_slurms ? nodes : hosts;
}

}  // namespace ddpm::comm
