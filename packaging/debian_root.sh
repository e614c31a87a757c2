#!/usr/bin/env bash
# Makes a bare Debian 12 as a tarball, with nothing added but the MPI and the HDF5 that CPack's tarball is built for. The image of
# packaging/image.sh stands on it, and tests/package/clean_root.sh tries CPack's tarball in it.
#
#   packaging/debian_root.sh [--mpi NAME] [--help] FILE.tar
#
#   --mpi NAME   the MPI, and HDF5 for it: openmpi, which is meant without this, or mpich, for the tarball of the preset mpich
#
# With the Debian package mmdebstrap and a mirror ($DEBIAN_MIRROR, or http://deb.debian.org/debian; the one of security updates
# is looked for beside it). Root is not needed where users may make namespaces. Takes a minute and 500 MB.
set -euo pipefail
# shellcheck source=modules/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../modules/common.sh"
help_if_asked "${BASH_SOURCE[0]}" "$@"
packages=openmpi-bin,libhdf5-openmpi-103-1
if [ "${1:-}" = --mpi ]; then
  case ${2:-} in
    openmpi) ;;
    mpich) packages=mpich,libhdf5-mpich-103-1 ;;
    *) refuse_argument packaging/debian_root.sh "--mpi ${2:-}" "wanted: --mpi openmpi or --mpi mpich" ;;
  esac
  shift 2
fi
if [ $# -ne 1 ] || [[ $1 != *.tar ]]; then
  refuse_argument packaging/debian_root.sh "$*" "it takes the name of one tarball, FILE.tar"
fi

mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
trap 'rm -f "$1.incoming"' EXIT
# What is not needed to run a program is left out: pages of manuals, translations, the packages' lists.
mmdebstrap --quiet --variant=minbase --format=tar --include="$packages" \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  bookworm "$1.incoming" "deb $mirror bookworm main" "deb $mirror bookworm-updates main" "deb $mirror-security bookworm-security main"
mv "$1.incoming" "$1"
