#!/usr/bin/env bash
# The bundle of modules/setup.sh in a clean Debian 12 without a network: its packages and LibTorch are installed, its sources built.
#
#   tests/package/bundle_root.sh [--help] [TARGET...]      what is built; ddpm, the program, if nothing is named
#
# As root, with the packages mmdebstrap and iproute2, a Debian mirror ($DEBIAN_MIRROR, or deb.debian.org) and PyPI. Takes five
# minutes and 6 GB below $TMPDIR, which are given back; the program then takes a build of all sources.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. modules/common.sh
help_if_asked tests/package/bundle_root.sh "$@"
for target in "$@"; do
  [[ $target = ddpm* ]] || refuse_argument tests/package/bundle_root.sh "$target" "it takes targets of CMake, which begin with ddpm"
done

work=$(mktemp -d)
root=$work/root
trap 'rm -rf --one-file-system "$work"' EXIT
say "System"
packaging/debian_root.sh "$work/root.tar"
mkdir "$root"
tar -xf "$work/root.tar" -C "$root" --numeric-owner
say "Bundle"
modules/setup.sh --bundle "$root/srv/bundle.tar"

# What a person types there. The namespace has no network but the machine's own (without it, Open MPI's mpicc warns, and CMake takes
# the warning for an option), and ends with all that was started in it.
cat >"$root/srv/install.sh" <<'EOF'
set -euo pipefail
cd /srv
tar -xOf bundle.tar sources.tar.gz | tar -xz
cd ddpm
modules/setup.sh --from-bundle ../bundle.tar
cmake --preset release -DDDPM_TESTS=OFF -DDDPM_UNITY=ON
cmake --build build/release --parallel "$1" --target "${@:2}"
[ ! -e build/release/ddpm ] || build/release/ddpm --version
EOF
say "Installation without a network"
# shellcheck disable=SC2016  # the words in quotes are for the shell in there
unshare --net --mount --pid --fork --kill-child sh -c \
  'ip link set lo up && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" /usr/bin/env -i HOME=/srv PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' \
  "$root" bash /srv/install.sh "$(build_jobs)" "${@:-ddpm}"
