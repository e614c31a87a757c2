# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # variables that modules/setup.sh sets or reads
# Bundles, for machines without a network: all that a build needs, in one tarball. modules/setup.sh, which sources this file,
# makes them and installs from them. That script has what is wanted (`with_packages`, `wanted_packages`, `wheels`, …) and the options
# that its calls of apt-get and pip take (`apt_options`, `pip_options`).
#
# A bundle is a tar without compression, because its parts are compressed:
#
#   bundle.txt        what it was made for: a name and a value in each line
#   SHA256SUMS        of all other files
#   sources.tar.gz    the commit of the project, in the folder ddpm
#   debian/           .deb files with all that they depend on, and their list: a repository as apt-get reads it
#   wheels/           of PyPI

# --- What a bundle is made for ----------------------------------------------------------------------------------------

# Prints the release of the system: debian-12.
this_system() (
  # shellcheck source=/dev/null
  . /etc/os-release
  printf '%s-%s\n' "$ID" "${VERSION_ID:-unknown}"
)

# Prints the version of the Python whose wheels are wanted: 3.11.
this_python() { "${PYTHON:-python3}" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

# Prints the options that ask for the same again, without those about bundles.
options_of_this_run() {
  local options="--mpi $mpi"
  [ "$with_packages" = yes ] || options+=" --no-packages"
  [ "$with_tests" = no ] || options+=" --tests"
  [ "$with_cuda" = no ] || options+=" --cuda"
  [ "$with_fonts" = no ] || options+=" --fonts"
  [ "$with_pictures" = no ] || options+=" --pictures"
  printf '%s\n' "$options"
}

# Prints the Debian packages that are unpacked into the cache, one in each line.
unpacked_packages() {
  [ "$with_tests" = no ] || [ "$with_packages" = no ] || printf '%s\n' "${module_systems[@]}"
  [ "$with_fonts" = no ] || printf '%s\n' "${fonts[@]}"
  [ "$with_pictures" = no ] || printf '%s\n' "${pictures[@]}"
}

# Prints the value of $1 in the file bundle.txt that is read from standard input.
bundle_value() { sed -n "s/^$1 //p"; }

# A folder that is removed when the script ends, however it ends.
temporary=""
remove_temporary() { [ -z "$temporary" ] || rm -rf "$temporary" "$temporary.tar"; }
trap remove_temporary EXIT

# --- Making one -------------------------------------------------------------------------------------------------------

# Fetches the Debian packages, from $2 on, into the repository $1. They come with all that they depend on, as if nothing were
# installed, so that the most bare system of the release can install them.
bundle_packages() {
  local repository=$1 package
  shift
  mkdir -p "$repository/partial"
  : >"$repository/nothing-installed"
  quietly '' apt -y --download-only --no-install-recommends -o Dir::State::status="$repository/nothing-installed" \
    -o Dir::Cache::archives="$repository" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root install "$@" ||
    fail "apt-get could not fetch the packages (its messages are above)." \
      "If it knows no such package, its lists are missing: an administrator may run apt-get update."
  rm -rf "$repository/partial" "$repository/lock" "$repository/nothing-installed"
  for package in "$@"; do
    compgen -G "$repository/${package}_*.deb" >/dev/null ||
      fail "apt-get takes $package from a folder of this machine, and does not copy it; have apt's sources say copy: in place of file:."
  done
}

# Writes the list of the repository $1, which apt-get reads. Debian's dpkg-scanpackages does the same, and brings Perl along.
list_packages() {
  local repository=$1 deb plain
  for deb in "$repository"/*_*%3a*; do # an epoch, which apt-get would look for by another name
    plain=${deb##*/}
    [ ! -e "$deb" ] || mv "$deb" "$repository/${plain/_*%3a/_}"
  done
  for deb in "$repository"/*.deb; do
    dpkg-deb --field "$deb"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "${deb##*/}" "$(stat -c %s "$deb")" "$(sha256sum <"$deb" | cut -d' ' -f1)"
  done >"$repository/Packages"
}

# Fetches wheels into the folder $1, by a pip in the folder $2; the further arguments are pip's.
bundle_wheels() {
  local folder=$1 python=$2/bin/python
  shift 2
  "$python" -I -m pip download "${pip_options[@]}" --only-binary :all: --dest "$folder" "$@" ||
    fail "pip could not fetch the wheels (its messages are above)."
}

# Prints the METADATA of the wheel $1.
metadata_of() {
  "${PYTHON:-python3}" -I -c 'import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
print(wheel.read(next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))).decode())' "$1"
}

# Puts the folder $1, whose files were named, into the tarball $2, and the sum of that beside it.
pack_bundle() {
  local folder=$1 file=$2
  (
    cd "$folder" || exit
    find bundle.txt sources.tar.gz debian wheels -type f -print0 | sort -z | xargs -0 sha256sum >SHA256SUMS
    tar --create --file "$folder.tar" --owner=0 --group=0 --numeric-owner --sort=name bundle.txt SHA256SUMS sources.tar.gz debian wheels
  )
  mv "$folder.tar" "$file"
  (cd "$(dirname "$file")" && sha256sum "$(basename "$file")") >"$file.sha256"
}

# Makes the bundle $1: all that install_all would fetch.
make_bundle() {
  local file=$1 parent clone commit packages extra needs system=any
  parent=$(dirname "$file")
  clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  [ ! -e "$file" ] || fail "$file is there already; remove it, or name another file."
  [ -d "$parent" ] || fail "there is no folder $parent for the bundle."
  commit=$(git -C "$clone" rev-parse --verify --quiet HEAD 2>/dev/null) || fail "a bundle holds a commit of the project, and $clone is not a clone."
  check_room "$parent" "The bundle" 4 "Name a file in another place."
  temporary=$(mktemp -d "$parent/.incoming-bundle.XXXXXX")
  mkdir "$temporary/debian" "$temporary/wheels" "$temporary/python"

  say "Sources"
  note "commit $commit"
  [ -z "$(git -C "$clone" status --porcelain)" ] || note "changes that are not committed are left out"
  git -C "$clone" archive --format=tar.gz --prefix=ddpm/ --output "$temporary/sources.tar.gz" HEAD

  say "Packages"
  if [ "$with_packages" = yes ]; then
    mapfile -t packages < <(wanted_packages)
    bundle_packages "$temporary/debian" "${packages[@]}"
  fi
  for extra in $(unpacked_packages); do
    download_package "$extra" "$temporary/debian" || fail "apt-get could not fetch $extra (its messages are above)."
  done
  if compgen -G "$temporary/debian/*.deb" >/dev/null; then
    system=$(this_system)
    list_packages "$temporary/debian"
    note "$(grep -c '^Package:' "$temporary/debian/Packages") packages, $(du -sh "$temporary/debian" | cut -f1)"
  fi

  [ "$with_tests" = no ] || [ "$with_packages" = no ] || note "the bare Debian of the test of images is left out: packaging/debian_root.sh makes it, by a network"

  say "Wheels"
  "${PYTHON:-python3}" -I -m venv "$temporary/python" || fail "${PYTHON:-python3} -m venv failed; Debian has it in the package python3-venv."
  bundle_wheels "$temporary/wheels" "$temporary/python" --no-deps "${wheels[@]}"
  if [ "$with_cuda" = yes ]; then
    mapfile -t needs < <(metadata_of "$temporary"/wheels/torch-*.whl | needs_of_torch)
    bundle_wheels "$temporary/wheels" "$temporary/python" "${needs[@]}" "${nvcc_wheels[@]}"
  fi
  note "$(du -sh "$temporary/wheels" | cut -f1)"

  printf '%s\n' "system $system" "machine $(uname -m)" "python $(this_python)" "commit $commit" "options $(options_of_this_run)" \
    >"$temporary/bundle.txt"
  pack_bundle "$temporary" "$file"
  say "$file ($(du -h "$file" | cut -f1)), and its sum in $file.sha256"
}

# --- Opening one ------------------------------------------------------------------------------------------------------

# Prints bundle.txt of the bundle $1, unless it is for another system.
read_bundle() {
  local file=$1 facts system of_bundle here
  [ -f "$file" ] || fail "there is no bundle $file."
  facts=$(tar --extract --to-stdout --occurrence=1 --file "$file" bundle.txt 2>/dev/null) ||
    fail "$file is not a whole bundle of modules/setup.sh --bundle; compare it with $file.sha256."
  system=$(bundle_value system <<<"$facts")
  of_bundle="$system $(bundle_value machine <<<"$facts")"
  here="$(this_system) $(uname -m)"
  [ "$system" != any ] || here="any $(uname -m)" # it holds wheels alone, which run on all systems
  [ "$of_bundle" = "$here" ] || fail "$file was made for $of_bundle, and this machine is $here; make one on a machine like this one."
  printf '%s\n' "$facts"
}

# Unpacks the bundle $1 into the folder $2 and compares all files with their sums.
unpack_bundle() {
  local file=$1 folder=$2 damaged said
  said=$(tar --extract --no-same-owner --file "$file" --directory "$folder" 2>&1) ||
    fail "$file does not unpack: ${said%%$'\n'*}; where nothing else is amiss, compare it with $file.sha256."
  if ! damaged=$(cd "$folder" && sha256sum --check --quiet --strict SHA256SUMS 2>/dev/null); then
    fail "$file is damaged: ${damaged:+${damaged%%:*} }does not have the sum that it was packed with; compare it with $file.sha256."
  fi
}

# Has apt-get and pip take everything from the unpacked bundle $1, and nothing from elsewhere. The lists of the system stay as
# they are.
install_from() {
  local folder=$1
  mkdir -p "$folder/lists/partial"
  # The sums of the files were compared, and stand in for a signature.
  printf 'deb [trusted=yes] file:%s/debian ./\n' "${folder// /%20}" >"$folder/sources.list"
  apt_options=(-o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$folder/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
  pip_options+=(--no-index --find-links "$folder/wheels")
}

# Ends where wheels come from a bundle that was made for another Python.
expect_python_of_bundle() {
  local python=${PYTHON:-python3}
  [ -z "$python_of_bundle" ] || [ "$(this_python)" = "$python_of_bundle" ] ||
    fail "the bundle's wheels are for Python $python_of_bundle, and $python is $(this_python); name another with PYTHON=FILE."
}

# Installs what the bundle $1 holds.
install_bundle() {
  local file=$1 facts cache asked
  facts=$(read_bundle "$file")
  read -r -a asked < <(bundle_value options <<<"$facts")
  read_arguments "${asked[@]}"
  python_of_bundle=$(bundle_value python <<<"$facts")
  cache=$(absolute_cache)
  # A system without Python gets that of its release from the bundle.
  if have "${PYTHON:-python3}" && [ -z "$(site_libtorch)$(cached_libtorch "$cache/libtorch-$torch_version")" ]; then
    expect_python_of_bundle
  fi
  say "Bundle"
  note "made with ${asked[*]} at commit $(bundle_value commit <<<"$facts")"
  mkdir -p "$cache" || fail "the cache folder $cache cannot be made; name another with DDPM_CACHE=DIR."
  check_room "$cache" "The unpacked bundle" $((($(stat --dereference --format=%s "$file") >> 30) + 1))
  temporary=$(mktemp -d "$cache/.bundle.XXXXXX")
  unpack_bundle "$file" "$temporary"
  install_from "$temporary"
  install_all
}
