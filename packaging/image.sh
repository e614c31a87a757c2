#!/usr/bin/env bash
# Makes an OCI image of CPack's tarball, as a folder that podman, Docker, Apptainer and skopeo read. No daemon, base image or
# container takes part, and with --root no network.
#
#   packaging/image.sh [--root ROOT.tar] [--help] TARBALL FOLDER
#
#   --root ROOT.tar   the system to put it on, which packaging/debian_root.sh has made; otherwise that makes a new one
#
# TARBALL is packages/ddpm-VERSION-linux-x86_64-cpu.tar.gz of cpack, and FOLDER is new; the image in it is called VERSION. With the
# Debian package umoci, and root or not.
set -euo pipefail
umask 022 # everybody may read what is in an image, whoever makes it
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=modules/common.sh
. "$here/../modules/common.sh"
readonly script=packaging/image.sh
help_if_asked "${BASH_SOURCE[0]}" "$@"
root=""
if [ "${1:-}" = --root ]; then
  [[ ${2:-} = *.tar ]] || refuse_argument $script --root "the tarball of a system must follow it, ROOT.tar"
  root=$(realpath -- "$2")
  shift 2
fi
[[ ${1:-} =~ (^|/)ddpm-([0-9][^-/]*)-[^/]*\.tar(\.gz)?$ ]] ||
  refuse_argument $script "${1:-}" "the first wanted is CPack's tarball, ddpm-VERSION-linux-x86_64-cpu.tar.gz"
version=${BASH_REMATCH[2]}
[ $# -eq 2 ] || refuse_argument $script "${*:2}" "behind the tarball, one new folder is wanted"
tarball=$(realpath -- "$1") folder=$(realpath -m -- "$2")
[ -e "$tarball" ] || refuse_argument $script "$1" "there is no such file"
[ ! -e "$folder" ] || refuse_argument $script "$2" "it is there already"
[ -d "$(dirname "$folder")" ] || refuse_argument $script "$2" "the folder that it is to be made in is not there"

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
if [ -z "$root" ]; then
  say "Debian 12"
  root=$work/root.tar
  "$here/debian_root.sh" "$root"
fi
rootless=()
[ "$(id -u)" -eq 0 ] || rootless=(--rootless)

say "Layers"
image=$work/image:$version
umoci init --layout "$work/image"
umoci new --image "$image"
umoci raw add-layer --image "$image" "$root"
mkdir "$work/ddpm"
tar -xf "$tarball" -C "$work/ddpm" --strip-components=1 --no-same-owner
chmod -R go=u,go-w "$work/ddpm"
umoci insert "${rootless[@]}" --image "$image" "$work/ddpm" /opt/ddpm
# Ranks in containers of their own may not read each other's memory, which Open MPI's shared memory would try.
umoci config --image "$image" --os linux --architecture "$(dpkg --print-architecture)" \
  --config.env PATH=/opt/ddpm/bin:/usr/local/bin:/usr/bin:/bin --config.env OMPI_MCA_btl_vader_single_copy_mechanism=none \
  --config.entrypoint ddpm --config.label org.opencontainers.image.title=ddpm \
  --config.label org.opencontainers.image.version="$version" --config.label org.opencontainers.image.licenses=Apache-2.0
umoci gc --layout "$work/image"
mv "$work/image" "$folder"
say "$folder:$version ($(du -sh "$folder" | cut -f1))"
