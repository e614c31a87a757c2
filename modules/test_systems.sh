# shellcheck shell=bash
# shellcheck disable=SC2154  # variables that modules/setup.sh sets
# Systems that tests start programs in; sourced by modules/setup.sh, which fetches them with --tests.

# --- Module systems, for tests ----------------------------------------------------------------------------------------

# Without them their test is absent, which its configuration says.
fetch_module_systems() {
  local cache=$1 final=$1/module-systems incoming=$1/.incoming-module-systems package
  lock_cache "$cache"
  if [ -d "$final" ]; then
    note "in the cache: $final"
    return
  fi
  rm -rf "$incoming"
  for package in "${module_systems[@]}"; do
    note "unpacking the Debian package $package into $final"
    mkdir -p "$incoming/$package"
    if ! download_package "$package" "$incoming"; then
      note "going on without: apt-get could not fetch it (its messages are above)"
      return
    fi
    dpkg -x "$incoming/$package"_*.deb "$incoming/$package"
    rm "$incoming/$package"_*.deb
  done
  mv "$incoming" "$final"
}

# --- A bare Debian, for tests of images -------------------------------------------------------------------------------

# Without it their test is absent, which its configuration says.
fetch_debian_root() {
  local cache=$1 final=$1/debian-root.tar
  lock_cache "$cache"
  if [ -e "$final" ]; then
    note "in the cache: $final"
    return
  fi
  if [ -n "$from_bundle" ]; then
    note "going on without: no bundle holds it; where there is a network, packaging/debian_root.sh debian-root.tar makes it for this cache"
    return
  fi
  note "making $final (250 MB)"
  quietly '' "$(dirname "${BASH_SOURCE[0]}")/../packaging/debian_root.sh" "$final" ||
    note "going on without: mmdebstrap could not make it (its messages are above)"
}
