#include "checkpoint/retention.h"

#include <algorithm>

#include "base/file_error.h"
#include "checkpoint/config.h"
#include "checkpoint/folders.h"

namespace ddpm::checkpoint {

std::vector<int64_t> superfluous_steps(std::vector<int64_t> steps, int64_t written, const Retention& retention,
                                       const StepTest& is_whole, const StepTest& is_verified) {
  std::sort(steps.rbegin(), steps.rend());
  const int64_t newest = std::max<int64_t>(retention.keep_latest, 1);
  int64_t verified_left = std::min(newest, kLeastKept);
  int64_t whole_left = newest;
  std::vector<int64_t> superfluous;
  for (const int64_t step : steps) {
    const bool stays = step == written || retention.pinned.contains(step) ||
                       (retention.keep_every > 0 && step % retention.keep_every == 0);
    const bool verified = is_verified(step);
    const bool counts = whole_left > 0 || (verified && verified_left > 0);
    if ((stays && !counts) || !is_whole(step)) continue;
    if (!stays && !counts) superfluous.push_back(step);
    if (whole_left > 0) --whole_left;
    if (verified && verified_left > 0) --verified_left;
  }
  return superfluous;
}

void Keeper::verified(const Manifest& manifest) {
  std::vector<std::string> names = {kManifestName};
  for (const ManifestFile& file : manifest.files) names.push_back(file.name);
  std::ranges::sort(names);
  verified_[manifest.step] = std::move(names);
  damaged_.erase(manifest.step);
}

void Keeper::apply(int64_t written, const Retention& retention, const std::function<void()>& guard) {
  std::vector<int64_t> superfluous;
  try {
    superfluous = superfluous_steps(
        steps(), written, retention, [this](int64_t step) { return is_whole(step); },
        [this](int64_t step) { return verified_.contains(step); });
  } catch (const base::OutputError& error) {
    logger_.warn("older checkpoints are left in place: {}", error.what());
  }
  if (superfluous.empty()) return;
  guard();
  try {
    remove(superfluous);
  } catch (const base::OutputError& error) {
    logger_.warn("checkpoint of step {} is written, but older ones could not be removed: {}", written, error.what());
  }
}

std::vector<int64_t> Keeper::steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : files_.list(checkpoints_)) {
    if (const auto step = parse_step_folder(name)) steps.push_back(*step);
  }
  return steps;
}

/// A verified checkpoint is whole while its files exist; others are judged by manifest and sizes. A damaged one does
/// not displace a good one and is not removed; a warning names it once.
bool Keeper::is_whole(int64_t step) {
  const base::Path folder = checkpoints_ / step_folder_name(step);
  if (damaged_.contains(step)) return false;
  try {
    const auto known = verified_.find(step);
    if (known != verified_.end() && std::ranges::includes(files_.list(folder), known->second)) return true;
    verify_sizes(files_, folder);
    return true;
  } catch (const base::AccessError& error) {
    logger_.warn("left in place: {}", error.what());  // it may be readable the next time
  } catch (const NewerFormatError& error) {
    logger_.warn("left in place: {}", error.what());
    damaged_.insert(step);
  } catch (const base::OutputError& error) {
    logger_.warn("damaged checkpoint left in place: {}", error.what());
    damaged_.insert(step);
    verified_.erase(step);
  }
  return false;
}

/// The folder is renamed first and the rename is synced, so that no crash leaves half a checkpoint under a checkpoint's
/// name.
void Keeper::remove(const std::vector<int64_t>& steps) {
  std::vector<base::Path> doomed;
  for (const int64_t step : steps) {
    doomed.push_back(checkpoints_ / temporary_folder_name(kBeingRemoved, step));
    files_.rename(checkpoints_ / step_folder_name(step), doomed.back());
    verified_.erase(step);
  }
  files_.sync_directory(checkpoints_);
  for (const base::Path& folder : doomed) files_.remove_all(folder);
}

}  // namespace ddpm::checkpoint
