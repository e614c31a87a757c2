// The pretrained model that adapters (nn/adapter.h) belong to: a checkpoint holds the adapters alone, and remembers
// which model it was.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/file_system.h"
#include "base/json.h"
#include "comm/communicator.h"
#include "interop/diffusers_writer.h"
#include "nn/unet2d.h"

namespace ddpm::denoise {

struct AdapterBase {
  std::string path;    ///< absolute path of the model folder
  std::string sha256;  ///< over names, types and values of its weights
};

/// The scalars under which a checkpoint's state holds it, and back. Reading anything else throws OutputError, which
/// begins with `origin`.
void write_adapter_base(const AdapterBase& adapter_base, base::Json& state);
AdapterBase read_adapter_base(const base::Json& state, const std::string& origin);

/// Throws OutputError unless a model folder lies at `place`, where the weights beside adapters are looked for; `option`
/// names another place. On one rank.
void expect_base(const base::Path& place, const std::string& option);

/// Throws OutputError unless `model`, with adapters, is otherwise the model in the folder `path`: the digest of the
/// weights beside adapters is not all that they belong to. On one rank.
void expect_same_function(const base::Path& path, const nn::UNet2DConfig& model);

/// Throws base::ConfigError where --base was given for `model`, which has no adapters.
void expect_use_of_base(const std::optional<base::Path>& asked, bool has_adapters, const base::Path& model);

/// Calls `use` on every rank with each weight in the model folder `path` that a model like `unet` has beside its
/// adapters (SharedWeights), and returns what a checkpoint remembers of the folder. Collective.
AdapterBase read_base_weights(const base::Path& path, const nn::UNet2D& unet, comm::Communicator& world,
                              const std::function<void(const std::string& name, const at::Tensor& values)>& use);
/// Throws OutputError unless the weights that were read are those that a checkpoint remembers.
void expect_same_base(const AdapterBase& remembered, const AdapterBase& read);

/// The values of adapters' parameters by name.
using AdapterValues = std::map<std::string, at::Tensor>;

/// Adds adapters to the weights that they belong to.
class AdapterMerger {
 public:
  /// The layers of `unet` have the adapters. Both outlive this object.
  AdapterMerger(const nn::UNet2D& unet, const AdapterValues& adapters);

  /// The weight `name` with its adapter's part (nn::merged_difference), in float32; without an adapter as it is.
  [[nodiscard]] at::Tensor merged(const std::string& name, const at::Tensor& weight) const;

 private:
  const AdapterValues& adapters_;
  std::map<std::string, const nn::Adapter*> by_weight_;
};

/// The weights that lie where they are remembered to, merged with the adapters of `unet`. Not collective. Throws
/// OutputError for a folder that cannot be read, does not fit or holds other weights now.
std::vector<interop::NamedTensor> merged_weights(const AdapterBase& remembered, const nn::UNet2D& unet,
                                                 const AdapterValues& adapters);

}  // namespace ddpm::denoise
