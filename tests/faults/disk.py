"""A small disk for a run's folder, which can be filled: an ext4 in a file, or else a tmpfs. Wants root, and a mount namespace of
its own, with which it goes."""

import contextlib
import os
import shutil
import subprocess
import sys

OWN_MOUNTS = "DDPM_SOAK_OWN_MOUNTS"
MIB = 1 << 20


def with_own_mounts():
    """Starts this program again in a mount namespace of its own. Returns whether it is in one."""
    if OWN_MOUNTS in os.environ:
        return True
    try:
        subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt"],
                       check=True, capture_output=True, timeout=10)  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    command = ["unshare", "--mount", sys.executable, *(["-B"] if sys.dont_write_bytecode else []), *sys.argv]
    os.execvpe(command[0], command, {**os.environ, OWN_MOUNTS: "1"})


class Disk:
    """`folder` is the mount point. `kind` says what was mounted."""

    def __init__(self, folder, mib):
        self.folder = folder
        self.filler = folder / "filler"
        folder.mkdir(parents=True)
        image = folder.with_suffix(".image")
        try:
            with image.open("wb") as file:
                file.truncate(mib * MIB)
            self._run("mkfs.ext4", "-q", "-F", "-m", "0", image)
            self._run("mount", "-o", "loop", image, folder)
            self.kind = "ext4"
        except (OSError, subprocess.CalledProcessError):
            image.unlink(missing_ok=True)
            self._run("mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", folder)
            self.kind = "tmpfs"

    def fill(self, leave):
        """Takes all room but for so many bytes."""
        free = os.statvfs(self.folder).f_bavail * os.statvfs(self.folder).f_frsize
        with self.filler.open("wb") as file, contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, free - leave))

    @property
    def full(self):
        return self.filler.exists()

    def free(self):
        self.filler.unlink(missing_ok=True)

    def remove(self):
        self._run("umount", "-l", self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.with_suffix(".image").unlink(missing_ok=True)

    @staticmethod
    def _run(*command):
        subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=60)
