#include "cli/eval_fields.h"

#include <memory>

#include "base/error.h"
#include "base/named.h"
#include "cli/dataset_arguments.h"
#include "cli/eval_output.h"
#include "cli/lazy_bar.h"
#include "comm/collectives.h"
#include "device/threads.h"
#include "eval/field_evaluation.h"

namespace ddpm::cli {
namespace {

struct FieldArguments {
  eval::FieldRequest request = {};
  std::optional<double> gate;
  DatasetArguments dataset;
  ResultArguments result;
};

void run_fields(Context& context, FieldArguments arguments) {
  auto& world = context.session.world();
  eval::FieldRequest& request = arguments.request;
  comm::agree(world, [&] {
    request.reading = dataset_options(arguments.dataset);
    if (arguments.gate && request.exact.empty()) {
      throw base::ConfigError("--gate {}: only values that --exact knows can be off, and it was not given",
                              *arguments.gate);
    }
  });
  request.reading.threads = device::threads_per_rank(0, context.session.local_size());
  expect_result_place(context, arguments.result);
  context.enter("reading the samples");
  const eval::Result result = [&] {
    LazyBar bar("eval fields", context.log.speaks(), "sample");
    return eval::evaluate_fields(world, request, [&](int64_t done, int64_t total) { bar.update(done, total); });
  }();
  deliver(context, result, arguments.result);
  if (arguments.gate) comm::agree(world, [&] { eval::expect_within(result, *arguments.gate); });
}

}  // namespace

void declare_eval_fields(const Subcommand& eval, Command& command) {
  const auto arguments = std::make_shared<FieldArguments>();
  eval::FieldRequest& request = arguments->request;
  const Subcommand fields = eval.add_subcommand(
      "fields", "Samples of fields against the data: bias, spectra, tails, CRPS, ranks; against exact values");
  fields
      .add("SAMPLES", &request.samples,
           "Sample sets of one model, of several seeds perhaps: folders, .h5 or .npy, as ddpm sample writes them")
      .required();
  fields.add("--data", &request.data,
             "The truth: a dataset's folder or file. Where samples were drawn with --condition, sample --members of "
             "condition c are held against its image c");
  fields.add("--against", &request.others,
             "Sample sets of another model B, which the verdicts compare with SAMPLES, A");
  fields.add("--exact", &request.exact,
             "Hold them against exact values: u1,beta=B; su2,beta=B; ising,beta=B (or temperature=T); "
             "phi4,mass-squared=M,lambda=L; grf,slope=S");
  fields
      .add("--gate", &arguments->gate,
           "With --exact: end with exit code 6 where a value is further off, in standard errors")
      .accept(NumberRange{0.0, 1e6});
  const Option members =
      fields
          .add("--members", &request.members,
               "Samples of each condition, one after the other, where the set does not say so, such as an .npy")
          .accept(IntegerRange{1, int64_t{1} << 20});
  fields
      .add_flag("--unpaired", request.unpaired,
                "Take samples of conditions for one draw, and compare distributions alone")
      .excludes(members);
  fields
      .add("--block", &request.block,
           "Successive images of the data whose errors go together, such as the hours of a day: left out as one")
      .accept(IntegerRange{1, int64_t{1} << 20})
      .show_default();
  fields
      .add("--samples-hold", &request.units,
           "Values in the data's units (stored: ddpm sample --denormalize), or in the model's range (model). auto: "
           "stored where the set records transforms; an .npy is in the model's range")
      .show_default();
  declare_dataset_arguments(fields, arguments->dataset);
  declare_result_arguments(fields, arguments->result);
  fields.footer(
      "Numbers are in the data's units, of valid pixels alone, and have a 95 % interval over samples or conditions,\n"
      "and over sample sets where there are several. Exit code 6: beyond the --gate.");
  fields.on_chosen([&command, arguments] {
    command = {.run = [arguments](Context& context) { run_fields(context, *arguments); }, .shares_work = true};
  });
}

}  // namespace ddpm::cli
