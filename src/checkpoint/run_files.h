// Names of the files and folders in a run folder beside its checkpoints (folders.h) and its lock (run_lock.h).
#pragma once

namespace ddpm::checkpoint {

inline constexpr const char* kConfigName = "config.toml";
inline constexpr const char* kMetricsName = "metrics.jsonl";
inline constexpr const char* kTableName = "metrics.csv";
/// The finished model, and that of the checkpoint with the best validation loss.
inline constexpr const char* kModelFolder = "model";
inline constexpr const char* kBestModelFolder = "model-best";
/// A finished model that training went on from.
inline constexpr const char* kPreviousModelFolder = "model.previous";
/// In each of them: what diffusers opens as a pipeline has it.
inline constexpr const char* kModelIndexName = "model_index.json";
/// Counts the starts of the run: see run/run_start.h.
inline constexpr const char* kStartsName = "starts.json";
/// What each start of the run has used: see observe/usage.h.
inline constexpr const char* kUsageName = "usage.jsonl";
/// Scalars for TensorBoard, pictures made meanwhile, the messages of ranks, and traces.
inline constexpr const char* kEventsFolder = "events";
inline constexpr const char* kSamplesFolder = "samples";
inline constexpr const char* kLogsFolder = "logs";
inline constexpr const char* kProfileFolder = "profile";
/// Where `ddpm report` looks for what `ddpm eval` wrote.
inline constexpr const char* kEvaluationFolder = "evaluation";
/// `ddpm doctor` makes its trials in hidden folders of a run folder, whose names begin with a dot, this word, and a
/// dot.
inline constexpr const char* kDoctorName = "ddpm-doctor";

}  // namespace ddpm::checkpoint
