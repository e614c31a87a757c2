#include "doctor/nccl_settings.h"

#include <filesystem>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace ddpm::doctor {
namespace {

using Names = std::vector<std::string>;
using Settings = std::map<std::string, std::string>;

/// A tree of files below a folder.
class Tree {
 public:
  std::string file(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    test::write_text(folder_.path() / name, text);
    return (folder_.path() / name).string();
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  [[nodiscard]] base::Path root() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

comm::Environment environment_of(Settings variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(NcclSettings, TheUsersFileCountsBeforeTheHosts) {
  Tree tree;
  tree.file("etc/nccl.conf", "# of all users\nNCCL_CROSS_NIC=1\nNCCL_SOCKET_IFNAME==hsn0\nnonsense\n");
  tree.file("home/.nccl.conf", "NCCL_CROSS_NIC=0\n");
  const std::string own = tree.file("own.conf", "NCCL_CROSS_NIC=2\n");
  const auto home = std::pair<const std::string, std::string>("HOME", tree.path("home"));
  EXPECT_EQ(nccl_file_settings(environment_of({}), tree.root()),
            (Settings{{"NCCL_CROSS_NIC", "1"}, {"NCCL_SOCKET_IFNAME", "=hsn0"}}));
  EXPECT_EQ(nccl_file_settings(environment_of({home}), tree.root()).at("NCCL_CROSS_NIC"), "0");
  EXPECT_EQ(nccl_file_settings(environment_of({home, {"NCCL_CONF_FILE", own}}), tree.root()).at("NCCL_CROSS_NIC"), "2");
  EXPECT_EQ(nccl_file_settings(environment_of({home, {"NCCL_CONF_FILE", ""}}), tree.root()).at("NCCL_CROSS_NIC"), "0");
  EXPECT_TRUE(nccl_file_settings(environment_of({}), tree.path("empty")).empty());
}

TEST(NcclPlugin, HasTheNameThatIsChosen) {
  EXPECT_EQ(nccl_plugin_names(""), Names{"libnccl-net.so"});
  EXPECT_EQ(nccl_plugin_names("ofi"), (Names{"ofi", "libnccl-net-ofi.so"}));
  EXPECT_EQ(nccl_plugin_names("none"), Names{});
  EXPECT_EQ(nccl_plugin_names("a,b").size(), 4U);
}

TEST(NcclPlugin, IsLookedForAsTheDynamicLinkerDoes) {
  Tree tree;
  const std::string first = tree.file("one/libnccl-net.so", "");
  const std::string second = tree.file("two/libnccl-net.so", "");
  const std::string places = tree.path("none") + "::" + tree.path("two") + ":" + tree.path("one");
  EXPECT_EQ(find_library({"libnccl-net.so"}, places, tree.root()), second);
  EXPECT_EQ(find_library({"libnccl-net-ofi.so", "libnccl-net.so"}, tree.path("one"), tree.root()), first);
  EXPECT_EQ(find_library({"libnccl-net.so"}, "", tree.root()), "");
  EXPECT_EQ(find_library({first, "x"}, "", tree.root()), first);
  EXPECT_EQ(find_library({"/nowhere/libnccl-net.so"}, tree.path("one"), tree.root()), "");
  EXPECT_EQ(find_library({}, tree.path("one"), tree.root()), "");

  using namespace std::string_literals;
  tree.file("etc/ld.so.cache", "head\0/opt/a/lib/libnccl-net.so.1\0libnccl-net.so\0/opt/b/lib/libnccl-net.so\0"s);
  EXPECT_EQ(find_library({"libnccl-net.so"}, "", tree.root()), "/opt/b/lib/libnccl-net.so");
  EXPECT_EQ(find_library({"libnccl-net.so"}, tree.path("two"), tree.root()), second);
}

}  // namespace
}  // namespace ddpm::doctor
