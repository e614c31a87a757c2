#!/usr/bin/env bash
# CPack's tarball in a clean Debian 12, with nothing added but Debian's Open MPI and HDF5 (packaging/debian_root.sh).
#
#   tests/package/clean_root.sh [--help] [BUILD]      the build folder; build/release if not given
#
# As root, with the package mmdebstrap and a Debian mirror ($DEBIAN_MIRROR, or deb.debian.org). Takes two minutes and
# 1.5 GB below $TMPDIR, which are given back.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. modules/common.sh
help_if_asked tests/package/clean_root.sh "$@"
[ $# -le 1 ] || refuse_argument tests/package/clean_root.sh "$2" "it takes one build folder"
[ -e "${1:-build/release}/CMakeCache.txt" ] || refuse_argument tests/package/clean_root.sh "${1:-build/release}" "it is not a build folder"

build=$(realpath "${1:-build/release}")
work=$(mktemp -d)
root=$work/root
clean_up() {
  ! mountpoint -q "$root/proc" || umount "$root/proc"
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT

packaging/debian_root.sh "$work/root.tar"
mkdir "$root"
tar -xf "$work/root.tar" -C "$root" --numeric-owner
mount -t proc proc "$root/proc"

export DDPM=$build/ddpm DDPM_SOURCE_DIR=$PWD
python3 tests/package/tarball_test.py cpack --root "$root"
