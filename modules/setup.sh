#!/usr/bin/env bash
# Finds or installs everything that ddpm is built with.
#
#   modules/setup.sh [--tests] [--mpi NAME] [--cuda] [--arm] [--arm-libtorch] [--fonts] [--pictures] [--no-packages]
#                    [--bundle FILE] [--help]
#   modules/setup.sh --from-bundle FILE
#
#   --tests         also the tools that tests/run.sh and .ci/run need
#   --mpi NAME      with which MPI, and HDF5 for it: openmpi, which is meant without this, or mpich
#   --cuda          also a CUDA compiler, NCCL, and the libraries that PyTorch opens on GPUs (2 GB from PyPI, 4 GB unpacked)
#   --arm           also a compiler for 64-bit Arm, libraries for it (unpacked into the cache, not installed), and qemu, which
#                   runs what it makes: tests/arm.sh
#   --arm-libtorch  also LibTorch for 64-bit Arm, beside them (420 MB from PyPI)
#   --fonts         also the fonts whose letters jobs/quickstart.sh trains on (3 MB, unpacked into the cache, not installed)
#   --pictures      also icons, on which benchmarks train (32 MB, likewise)
#   --no-packages   the site's modules provide compiler, CMake, MPI, HDF5 and the small libraries: install none of them
#   --bundle FILE   install nothing; put all of this, with the sources, into a tarball for machines without a network
#   --from-bundle FILE   install what that tarball holds, without a network
#
# Debian packages are installed by apt-get, which needs root. LibTorch comes from PyPI into a cache outside the clone:
# $DDPM_CACHE, or $XDG_CACHE_HOME/ddpm, or ~/.cache/ddpm. A LibTorch named by $CMAKE_PREFIX_PATH or $Torch_ROOT is used
# instead. cmake/LibTorch.cmake looks in the same places.
#
# What is there is kept, so a second run takes a second. A run that was interrupted is simply started again: LibTorch gets
# its name in the cache only when it is whole.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

readonly torch_version=2.11.0
readonly cuda_version=13.0  # with which that wheel was built
# nvcc's parts must have one version; pip would take the newest of those that nvcc does not name.
readonly nvcc_wheels=(nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85)
# libtorch_cpu.so of this wheel needs the CUDA runtime and CUPTI libraries (not a GPU, not a driver).
readonly wheels=("torch==$torch_version" "nvidia-cuda-runtime==13.0.96" "nvidia-cuda-cupti==13.0.85")
readonly build_packages=(
  g++ cmake ninja-build ccache pkg-config
  libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev
  libpng-dev libjpeg62-turbo-dev zlib1g-dev libdeflate-dev liblz4-dev libzstd-dev
  libwebp-dev libtiff-dev libarchive-dev libkissfft-dev libfreetype-dev
  libssl-dev libgtest-dev libgmock-dev
  python3 python3-venv ca-certificates
)
# Both may be installed beside each other; the preset mpich of CMakePresets.json takes the second.
readonly openmpi_packages=(libopenmpi-dev openmpi-bin libhdf5-openmpi-dev)
readonly mpich_packages=(libmpich-dev mpich libhdf5-mpich-dev)
# Tests build communication with MPICH as well, and start a Slurm of their own, whose PMIx plugin opens the libpmix.so of
# libpmix-dev.
readonly test_packages=(
  clang-format clang-tidy clang-14 libclang-rt-14-dev shellcheck slurm-wlm munge libpmix-dev strace valgrind gnuplot-nox iproute2
  mmdebstrap umoci skopeo
  fonts-dejavu-core fonts-dejavu-extra chromium
  tcl8.6 lua5.3 lua-bit32 lua-filesystem lua-json lua-posix lua-term
)
# Only one of these can be installed, so the tests have both unpacked in the cache; the last line above is what they need.
readonly module_systems=(lmod environment-modules)
# Unpacked into the cache, unless the last of the files is installed.
readonly pictures=(oxygen-icon-theme) pictures_in=/usr/share/icons/oxygen/base pictures_end=48x48/mimetypes
readonly fonts=(fonts-dejavu-core fonts-dejavu-extra) fonts_in=/usr/share/fonts/truetype/dejavu fonts_end=DejaVuSerifCondensed.ttf

# shellcheck source=modules/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# What apt-get and pip are given with every call; a bundle adds where to look.
apt_options=()
pip_options=(--quiet --disable-pip-version-check --no-cache-dir --no-input --retries 3)
# shellcheck source=modules/bundle.sh
. "$(dirname "${BASH_SOURCE[0]}")/bundle.sh"
# shellcheck source=modules/arm.sh
. "$(dirname "${BASH_SOURCE[0]}")/arm.sh"
# shellcheck source=modules/test_systems.sh
. "$(dirname "${BASH_SOURCE[0]}")/test_systems.sh"
fail() {
  printf 'modules/setup.sh: %s\n' "$1" >&2
  shift
  [ $# -eq 0 ] || printf '    %s\n' "$@" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# --- Debian packages --------------------------------------------------------------------------------------------------

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s\n' "$package"
  done
}

apt() { apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "${apt_options[@]}" "$@" </dev/null; }

install_packages() {
  have apt-get || fail "this system has no apt-get, so packages cannot be installed." \
    "Load the site's modules for: C++20 compiler (GCC 12 or newer), CMake 3.24, Ninja, MPI, parallel HDF5, CLI11, toml++," \
    "nlohmann-json, fmt, libpng, libjpeg, libwebp, libtiff 4.5, libarchive, zlib, FreeType, libdeflate, LZ4, Zstandard, kissfft, OpenSSL, GoogleTest, Python 3 with venv. Then: modules/setup.sh --no-packages"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if [ ${#missing[@]} -eq 0 ]; then
    note "all $# packages are installed"
    return
  fi
  note "missing: ${missing[*]}"
  [ "$(id -u)" -eq 0 ] || fail "packages are missing, and only root can install them. An administrator may run:" \
    "apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" \
    "Where the site's modules provide them: modules/setup.sh --no-packages"
  note "installing them with apt-get"
  quietly '' dpkg --configure -a </dev/null  # finishes what an interrupted run left half-way
  quietly '' apt update -o APT::Update::Error-Mode=any || note "going on with the package lists that are there"
  quietly '^After this operation' apt install -y --fix-broken --no-install-recommends "${missing[@]}" || {
    [ -z "$from_bundle" ] || fail "apt-get could not install the bundle's packages (its messages are above)." \
      "Where this system has newer versions than the bundle, make a new one on a machine with the same updates."
    fail "apt-get could not install the packages (its messages are above)." \
      "If this machine has no network, run modules/setup.sh --bundle FILE where there is one, and --from-bundle FILE here."
  }
}

# Fetches the package $1 into the folder $2; root first gets the lists where they are missing.
download_package() (
  cd "$2"
  quietly '' apt -o APT::Sandbox::User=root download "$1" && return
  { [ "$(id -u)" -eq 0 ] || [ -n "$from_bundle" ]; } && quietly '' apt update && quietly '' apt -o APT::Sandbox::User=root download "$1"
)

# --- The cache --------------------------------------------------------------------------------------------------------

# Makes the cache folder $1 and keeps other runs of this script out of it until this one ends.
lock_cache() {
  mkdir -p "$1" || fail "the cache folder $1 cannot be made; name another with DDPM_CACHE=DIR."
  exec 9>"$1/.setup.lock"
  flock -n 9 && return
  note "waiting for another modules/setup.sh that works in $1"
  flock 9 || note "this file system has no locks; going on without"
}

# --- LibTorch ---------------------------------------------------------------------------------------------------------

# Prints the LibTorch that the site names, if it does: the folder that holds include/ATen/ATen.h.
site_libtorch() {
  local folder candidate folders
  IFS=: read -r -a folders <<<"${CMAKE_PREFIX_PATH:-}:${Torch_ROOT:-}"
  for folder in "${folders[@]}"; do
    for candidate in "$folder" "$folder/torch"; do
      if [ -n "$folder" ] && [ -e "$candidate/include/ATen/ATen.h" ]; then
        printf '%s\n' "$candidate"
        return
      fi
    done
  done
}

# Prints the torch folder of the LibTorch at $1, if there is one. Nothing half-written ever has that name.
cached_libtorch() {
  local torch
  for torch in "$1"/lib/python3*/site-packages/torch; do
    if [ -e "$torch/include/ATen/ATen.h" ] && [ -e "$torch/lib/libtorch_cpu.so" ]; then
      printf '%s\n' "$torch"
      return
    fi
  done
}

# Ends where the folder $1 has less than $3 GiB free, which $2 needs. $4 says what may be done.
check_room() {
  local free_kib
  free_kib=$(df -Pk "$1" | awk 'NR == 2 { print $4 }')
  [ "$free_kib" -ge $(($3 << 20)) ] ||
    fail "$2 needs $3 GiB free in $1, which has $((free_kib / 1024)) MiB." "${4:-Name another place with DDPM_CACHE=DIR.}"
}

install_libtorch() {
  local cache=$1 final=$1/libtorch-$torch_version incoming=$1/.incoming-libtorch torch
  torch=$(site_libtorch)
  if [ -n "$torch" ]; then
    note "using $torch (from CMAKE_PREFIX_PATH or Torch_ROOT)"
    return
  fi
  torch=$(cached_libtorch "$final")
  if [ -n "$torch" ]; then
    note "in the cache: $torch"
    return
  fi
  local python=${PYTHON:-python3}
  have "$python" || fail "$python is needed to fetch LibTorch from PyPI, and is not there."
  expect_python_of_bundle
  lock_cache "$cache"
  if [ -n "$(cached_libtorch "$final")" ]; then
    return  # the run that was waited for has done it
  fi
  check_room "$cache" LibTorch 3
  note "installing ${wheels[*]} from ${from_bundle:-PyPI} into $final (1.3 GB)"
  rm -rf "$incoming" "$final"
  # -I: Python takes modules from its own folders only, not from the working directory.
  "$python" -I -m venv "$incoming" || fail "$python -m venv failed; Debian has it in the package python3-venv."
  "$incoming/bin/python" -I -m pip install "${pip_options[@]}" --no-deps "${wheels[@]}" ||
    fail "pip could not install LibTorch (its messages are above)." \
      "If this machine has no network, run modules/setup.sh --bundle FILE where there is one, and --from-bundle FILE here," \
      "or name a LibTorch $torch_version of your own: Torch_ROOT=DIR."
  torch=$(cached_libtorch "$incoming")
  [ -n "$torch" ] || fail "the wheel of torch $torch_version has no LibTorch where it is expected, in $incoming."
  "$incoming/bin/python" -I -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$torch/lib/libtorch_cpu.so" ||
    fail "libtorch_cpu.so was installed, but does not load (the reason is above)."
  mv "$incoming" "$final"
}

# --- CUDA -------------------------------------------------------------------------------------------------------------

# Prints the packages of CUDA that the METADATA of a wheel of torch, which is read from standard input, asks for.
needs_of_torch() { sed -nE 's/^Requires-Dist: ((cuda-toolkit|nvidia-)[^;]*).*/\1/p' | tr -d ' '; }

# Adds to the LibTorch in the cache $1 what building and running the CUDA part needs, in the versions that its wheel names.
install_cuda() {
  local cache=$1 torch site cuda needs
  torch=$(site_libtorch)
  [ -z "$torch" ] || fail "--cuda adds to the LibTorch of the cache, and CMAKE_PREFIX_PATH or Torch_ROOT names another one, $torch." \
    "Load a CUDA toolkit and NCCL beside it instead."
  torch=$(cached_libtorch "$cache/libtorch-$torch_version")
  site=$(dirname "$torch")
  cuda=$site/nvidia/cu${cuda_version%.*}
  if [ -e "$cuda/.whole" ]; then
    note "in the cache: $cuda"
    return
  fi
  lock_cache "$cache"
  if [ -e "$cuda/.whole" ]; then
    return  # the run that was waited for has done it
  fi
  check_room "$cache" CUDA 6
  mapfile -t needs < <(needs_of_torch <"$(echo "$site"/torch-*.dist-info/METADATA)")
  note "installing ${needs[*]} ${nvcc_wheels[*]} from ${from_bundle:-PyPI} into $site/nvidia (2 GB)"
  "$cache/libtorch-$torch_version/bin/python" -I -m pip install "${pip_options[@]}" --no-warn-conflicts "${needs[@]}" "${nvcc_wheels[@]}" ||
    fail "pip could not install CUDA's packages (its messages are above)." \
      "Where the site has a CUDA toolkit $cuda_version and NCCL, load these instead."
  # CMake looks for these names.
  ln -sfn lib "$cuda/lib64"
  ln -sf "libcudart.so.${cuda_version%.*}" "$cuda/lib/libcudart.so"
  "$cuda/bin/nvcc" --version >/dev/null || fail "nvcc was installed, but does not start (the reason is above)."
  touch "$cuda/.whole"
}

# --- Pictures and fonts -----------------------------------------------------------------------------------------------

# Puts the folder $3 of Debian packages (from $5 on) into the cache $1 as $2; installed, it has the file or folder $4.
fetch_files() {
  local cache=$1 name=$2 installed=$3 end=$4 package
  local final=$cache/$name incoming=$cache/.incoming-$name
  shift 4
  if [ -d "$final" ]; then
    note "in the cache: $final"
    return
  fi
  lock_cache "$cache"
  if [ -d "$final" ]; then
    return  # the run that was waited for has done it
  fi
  rm -rf "$final" "$incoming"
  if [ -e "$installed/$end" ]; then
    note "using $installed"
    ln -s "$installed" "$final"
    return
  fi
  have apt-get || fail "the $name come from the Debian packages $*, and this system has no apt-get."
  note "unpacking the Debian packages $* into $final"
  mkdir -p "$incoming"
  for package in "$@"; do
    download_package "$package" "$incoming" ||
      fail "apt-get could not fetch $package (its messages are above)." \
        "If it knows no such package, its lists are missing: an administrator may run apt-get update."
    dpkg -x "$incoming/$package"_*.deb "$incoming/unpacked"
  done
  mv "$incoming/unpacked$installed" "$final"
  rm -rf "$incoming"
}

# --- What is asked for ------------------------------------------------------------------------------------------------

mpi=openmpi with_packages=yes with_pictures=no with_fonts=no with_tests=no with_cuda=no with_arm=no with_arm_libtorch=no bundle="" from_bundle=""
python_of_bundle=""

# Prints $2, the value of the option $1, or ends the script because there is none.
file_of() {
  [ -n "${2:-}" ] || refuse_argument modules/setup.sh "$1" "the name of a file must follow it"
  realpath -m -- "$2"
}

read_arguments() {
  local argument
  local known="known are --tests, --mpi, --cuda, --arm, --arm-libtorch, --fonts, --pictures, --no-packages, --bundle, --from-bundle and --help"
  while [ $# -gt 0 ]; do
    argument=$1
    shift
    case $argument in
      --tests) with_tests=yes ;;
      --mpi)
        mpi=${1:-}
        [ "$mpi" = openmpi ] || [ "$mpi" = mpich ] || refuse_argument modules/setup.sh "--mpi $mpi" "wanted: --mpi openmpi or --mpi mpich"
        shift
        ;;
      --cuda) with_cuda=yes ;;
      --arm | --arm-libtorch)
        with_arm=yes
        [ "$argument" = --arm ] || with_arm_libtorch=yes
        ;;
      --fonts) with_fonts=yes ;;
      --pictures) with_pictures=yes ;;
      --no-packages) with_packages=no ;;
      --bundle)
        bundle=$(file_of "$argument" "${1:-}")
        shift
        ;;
      --from-bundle)
        from_bundle=$(file_of "$argument" "${1:-}")
        shift
        ;;
      --help | -h) help_if_asked "${BASH_SOURCE[0]}" --help ;;
      *) refuse_argument modules/setup.sh "$argument" "$known" ;;
    esac
  done
}

# Prints the Debian packages that are installed, one in each line.
wanted_packages() {
  printf '%s\n' "${build_packages[@]}"
  if [ "$mpi" = mpich ]; then printf '%s\n' "${mpich_packages[@]}"; else printf '%s\n' "${openmpi_packages[@]}"; fi
  [ $with_tests = no ] || printf '%s\n' "${test_packages[@]}" "${mpich_packages[@]}"
  [ $with_arm = no ] || printf '%s\n' "${arm_packages[@]}"
}

# --- What this script does --------------------------------------------------------------------------------------------

# Prints the cache folder, if it can be one.
absolute_cache() {
  local cache
  cache=$(cache_folder)
  [ "${cache#/}" != "$cache" ] || fail "the cache folder must be an absolute path; seen: $cache"
  printf '%s\n' "$cache"
}

install_all() {
  local cache packages
  say "Packages"
  if [ $with_packages = yes ]; then
    mapfile -t packages < <(wanted_packages)
    install_packages "${packages[@]}"
  else
    note "left to the site's modules (--no-packages)"
  fi
  cache=$(absolute_cache)
  say "LibTorch"
  install_libtorch "$cache"
  if [ $with_cuda = yes ]; then
    say "CUDA"
    install_cuda "$cache"
  fi
  if [ $with_arm = yes ]; then
    say "Arm"
    fetch_arm_libraries "$cache"
    [ $with_arm_libtorch = no ] || fetch_arm_libtorch "$cache"
  fi
  if [ $with_tests = yes ] && [ $with_packages = yes ]; then
    say "Module systems"
    fetch_module_systems "$cache"
    say "Debian"
    fetch_debian_root "$cache"
  fi
  if [ $with_fonts = yes ]; then
    say "Fonts"
    fetch_files "$cache" fonts $fonts_in $fonts_end "${fonts[@]}"
  fi
  if [ $with_pictures = yes ]; then
    say "Pictures"
    fetch_files "$cache" pictures $pictures_in $pictures_end "${pictures[@]}"
  fi
}

read_arguments "$@"
if [ -n "$from_bundle" ]; then
  [ $# -eq 2 ] || refuse_argument modules/setup.sh "$*" "--from-bundle FILE stands alone, because the file says what it was made for"
  install_bundle "$from_bundle"
elif [ -n "$bundle" ]; then
  [ $with_arm = no ] || refuse_argument modules/setup.sh "$*" "a bundle holds nothing for another processor"
  make_bundle "$bundle"
else
  install_all
fi
