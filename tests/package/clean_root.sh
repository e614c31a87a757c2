#!/usr/bin/env bash
# CPack's tarball in a clean Debian 12: made by debootstrap, with nothing added but Debian's Open MPI and HDF5.
#
#   tests/package/clean_root.sh [--help] [BUILD]      the build folder; build/release if not given
#
# As root, with the package debootstrap and a Debian mirror ($DEBIAN_MIRROR, or deb.debian.org). Takes two minutes and
# 1.5 GB below $TMPDIR, which are given back.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. modules/common.sh
help_if_asked tests/package/clean_root.sh "$@"
[ $# -le 1 ] || refuse_argument tests/package/clean_root.sh "$2" "it takes one build folder"
[ -e "${1:-build/release}/CMakeCache.txt" ] || refuse_argument tests/package/clean_root.sh "${1:-build/release}" "it is not a build folder"

build=$(realpath "${1:-build/release}")
root=$(mktemp -d)
clean_up() {
  ! mountpoint -q "$root/proc" || umount "$root/proc"
  rm -rf --one-file-system "$root"
}
trap clean_up EXIT

chmod 755 "$root" # apt fetches as a user of its own
debootstrap --variant=minbase bookworm "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
mount -t proc proc "$root/proc"
chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends openmpi-bin libhdf5-openmpi-103-1

export DDPM=$build/ddpm DDPM_SOURCE_DIR=$PWD
python3 tests/package/tarball_test.py cpack --root "$root"
