// A plan as a table for people, as JSON, and as lines of TOML to set. Pure text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/candidates.h"

namespace ddpm::plan {

/// "1.50 GiB"; "-" for nothing.
std::string size_text(int64_t bytes);

/// What a start by the given arrangement would warn of; nothing where it cannot run.
std::vector<std::string> warnings_of(const Request& request);
/// The whole answer of `ddpm plan`, of at most 100 columns up to millions of ranks. Numbers of nodes that cannot run
/// the configuration are named below the table.
std::string text_of(const Request& request, const std::vector<Candidate>& all);
/// Returns the whole answer as a JSON object. Its `peak_memory_bytes` and `seconds_per_step` at the top level are those
/// of the given arrangement, and null where it cannot run.
base::OrderedJson json_of(const Request& request, const std::vector<Candidate>& all);

/// "1,000 parameters in 12 units", and how many more there are beside adapters.
std::string parameters_text(const ModelSizes& model);
/// A line about a pipeline: how long its stages wait; "" for none.
std::string pipeline_text(const Arrangement& arrangement);
/// A line about the islands of parallel.sync_every; "" for none.
std::string islands_text(const Arrangement& arrangement);
/// Memory by kind, one line each, and what a step's communication is: of `ddpm train --dry-run`.
std::string memory_text(const Memory& memory);
std::string traffic_text(const std::vector<Traffic>& traffic);

/// The sections and keys that select an arrangement.
std::string toml_of(const Arrangement& arrangement);
/// Which keys of [parallel] in a configuration that has `set` would stand in the way of `chosen`, and have to go.
std::vector<std::string> keys_in_the_way(const layout::Parallelism& set, const layout::Parallelism& chosen);
/// The sentence that says so; "" where none has to.
std::string keys_to_take_out(const layout::Parallelism& set, const layout::Parallelism& chosen);

}  // namespace ddpm::plan
