# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # variables that modules/setup.sh reads or sets
# What building for 64-bit Arm on another processor takes; sourced by modules/setup.sh, which fetches it with --arm and
# --arm-libtorch.

# The compiler runs here; the libraries are Debian's for arm64. The programs among the packages that these depend on are left out.
readonly arm_packages=(g++-aarch64-linux-gnu qemu-user-static)
readonly arm_libraries=(
  libc6-dev libstdc++6 libgomp1 libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libfmt-dev
  libpng-dev libjpeg62-turbo-dev zlib1g-dev libdeflate-dev liblz4-dev libzstd-dev
  libwebp-dev libtiff-dev libarchive-dev libkissfft-dev libfreetype-dev
  libssl-dev libgtest-dev libgmock-dev libopenmpi-dev libhdf5-openmpi-dev
)
readonly arm_left_out='gcc|g\+\+|cpp|gfortran|binutils|perl|python3|openssh|debconf|adduser|passwd|systemd|udev|bash|dash|coreutils|dpkg|tar|sed|grep'

# Makes the cache's folder arm64: a root with Debian's libraries for 64-bit Arm, which this system's dpkg need not know of. The
# package lists of that architecture lie there, too.
fetch_arm_libraries() {
  local cache=$1 final=$1/arm64 incoming=$1/.incoming-arm64 state packages link
  local names=("${arm_libraries[@]}")
  lock_cache "$cache"
  if [ -d "$final" ]; then
    note "in the cache: $final"
    return
  fi
  have apt-get || fail "the libraries for Arm are Debian packages, and this system has no apt-get."
  check_room "$cache" "Arm's libraries" 2
  rm -rf "$incoming"
  state=$incoming/.apt
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  : >"$state/status"
  local arm=(-o APT::Architecture=arm64 -o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::State::lists="$state/lists"
    -o Dir::Cache="$state/cache" -o APT::Sandbox::User=root -o APT::Install-Recommends=false)
  note "unpacking ${names[*]} for arm64 into $final"
  quietly '' apt "${arm[@]}" update -o APT::Update::Error-Mode=any || fail "apt-get could not fetch the package lists of arm64 (its messages are above)."
  packages=$(apt "${arm[@]}" --simulate install "${names[@]}" | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -vE "^($arm_left_out)(-|$)") ||
    fail "apt-get knows no libraries for arm64."
  # shellcheck disable=SC2086  # names, one a word
  (cd "$state" && quietly '' apt "${arm[@]}" download $packages) || fail "apt-get could not fetch the libraries (its messages are above)."
  find "$state" -maxdepth 1 -name '*.deb' -exec dpkg -x {} "$incoming" \;
  # What is linked by an absolute name lies below this root.
  find "$incoming" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
    ln -sfnr "$incoming$(readlink "$link")" "$link"
  done
  rm -rf "$state"
  mv "$incoming" "$final"
}

# Adds LibTorch for 64-bit Arm to the folder arm64 of the cache $1, where cmake/aarch64.cmake looks for it.
fetch_arm_libtorch() {
  local cache=$1 final=$1/arm64/opt/libtorch-$torch_version incoming=$1/.incoming-arm64-libtorch platform
  local platforms=()
  lock_cache "$cache"
  if [ -d "$final" ]; then
    note "in the cache: $final"
    return
  fi
  check_room "$cache" "LibTorch for Arm" 3
  note "unpacking ${wheels[*]} for Arm into $final (420 MB)"
  rm -rf "$incoming"
  "${PYTHON:-python3}" -I -m venv "$incoming/python" || fail "${PYTHON:-python3} -m venv failed; Debian has it in the package python3-venv."
  for platform in manylinux_2_28 manylinux_2_25 manylinux2014; do platforms+=(--platform "${platform}_aarch64"); done
  "$incoming/python/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-input --no-deps --no-compile \
    --retries 3 --only-binary=:all: --python-version 3.11 "${platforms[@]}" --target "$incoming/site" "${wheels[@]}" ||
    fail "pip could not fetch LibTorch for Arm (its messages are above)."
  mkdir -p "$(dirname "$final")"
  mv "$incoming/site" "$final"
  rm -rf "$incoming"
}
