#include "data/folder_lock.h"

#include "base/error.h"

namespace ddpm::data {

FolderLock::FolderLock(base::FileSystem& files, const base::Path& folder, base::Hold hold)
    : lock_(files, folder.string() + ".lock", hold) {
  if (lock_.held()) return;
  throw base::OutputError("{}: another process is at work in this folder, and holds {}; wait for it or end it",
                          folder.string(), lock_.place().filename().string());
}

void FolderLock::share() {
  lock_.share();
  if (lock_.held()) return;
  throw base::OutputError("{}: another process has taken over the folder that this one had locked",
                          lock_.place().string());
}

}  // namespace ddpm::data
