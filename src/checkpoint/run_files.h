// Names of the files in a run folder beside its checkpoints (folders.h) and its lock (run_lock.h).
#pragma once

namespace ddpm::checkpoint {

inline constexpr const char* kConfigName = "config.toml";
inline constexpr const char* kMetricsName = "metrics.jsonl";
inline constexpr const char* kTableName = "metrics.csv";
/// The finished model, and that of the checkpoint with the best validation loss.
inline constexpr const char* kModelFolder = "model";
inline constexpr const char* kBestModelFolder = "model-best";
/// In either of them: what diffusers opens as a pipeline has it.
inline constexpr const char* kModelIndexName = "model_index.json";
/// Counts the starts of the run: see run/run_start.h.
inline constexpr const char* kStartsName = "starts.json";
/// What each start of the run has used: see observe/usage.h.
inline constexpr const char* kUsageName = "usage.jsonl";
/// `ddpm doctor` makes its trials in hidden folders of a run folder, whose names begin with a dot, this word, and a
/// dot.
inline constexpr const char* kDoctorName = "ddpm-doctor";

}  // namespace ddpm::checkpoint
