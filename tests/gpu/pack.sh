#!/usr/bin/env bash
# Packs what a machine with a GPU needs to test and to measure this build, into one file: the program, libddpm_cuda.so, the
# tests on a GPU, Open MPI, HDF5 and the other libraries, golden data, the Python peers' diffusers.
#
#   tests/gpu/pack.sh [--help] [BUILD [FILE]]      build/release, and BUILD/ddpm-gpu-box.tar.xz
#
# There, only Python 3.11 or newer with the wheel torch of the build's version is needed, which brings CUDA, cuDNN and NCCL:
#
#   tar xf ddpm-gpu-box.tar.xz && ddpm-gpu-box/box.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. modules/common.sh
help_if_asked tests/gpu/pack.sh "$@"
[ $# -le 2 ] || refuse_argument tests/gpu/pack.sh "$3" "it takes a build folder and a file"

build=${1:-build/release}
[ -e "$build/libddpm_cuda.so" ] || refuse_argument tests/gpu/pack.sh "$build" "it is no build folder with a libddpm_cuda.so (CMake preset cuda)"
build=$(realpath "$build")
file=$(realpath -m "${2:-$build/ddpm-gpu-box.tar.xz}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
box=$work/ddpm-gpu-box
mkdir -p "$box"/{bin,lib,python,source/tests/{support,train,gpu,benchmarks},source/jobs,golden}

cp "$build/ddpm" "$build/libddpm_cuda.so" "$box/bin"
find "$build/tests" -name '*_gpu_test' -type f -exec cp {} "$box/bin" \;
cp tests/gpu/box.sh modules/common.sh "$box"
cuda=$(dirname "$(dirname "$(realpath "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
c++ -std=c++20 -O2 -fPIC -shared -I"$cuda/include" -L"$cuda/lib64" tests/gpu/kernel_times.cpp -lcupti -o "$box/bin/libkernel_times.so"
cp tests/gpu/*.py "$box/source/tests/gpu"
cp tests/support/{ddpm_run,launcher,plain_hdf5}.py "$box/source/tests/support"
cp tests/train/gpu_test.py "$box/source/tests/train"
cp tests/benchmarks/models.py "$box/source/tests/benchmarks"
cp jobs/*.toml "$box/source/jobs"
cp tests/nn/golden/*.safetensors "$box/golden"

# Open MPI and PMIx look for their plugins and texts below one folder, which $OPAL_PREFIX and $PMIX_INSTALL_PREFIX move.
mpirun=$(realpath "$(command -v mpirun)")
libraries=$(dirname "$(realpath "$(ldd "$build/ddpm" | awk '$1 ~ /^libmpi\.so/ {print $3}')")")
copy_tree() { # FILE OR FOLDER...: to the same place in the box
  for from in "$@"; do
    [ ! -e "$from" ] || cp -rL --parents "$from" "$box"
  done
}
copy_tree "$libraries"/openmpi/lib/openmpi3 /usr/share/openmpi /usr/bin/orted "$libraries"/pmix2/lib/pmix "$libraries"/pmix2/share
cp "$mpirun" "$box/usr/bin/mpirun"

# The closure of all of them, without what the torch wheel, the driver and the C library are.
of_the_machine='/lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s)\.so|/ld-linux|/libcuda\.so|/(torch|nvidia)/|/cuda[^/]*/'
mapfile -t needing < <(find "$box" -type f \( -name '*.so*' -o -path '*/bin/*' \))
ldd "${needing[@]}" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | grep -vE "$of_the_machine" \
  | xargs -I{} cp -L {} "$box/lib"
find "$box" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec strip --strip-unneeded {} + 2>/dev/null || true

# What the peers import and the torch wheel does not bring.
peers=$(cache_folder)/peers
packages=$(echo "$peers"/lib/python3*/site-packages)
if [ -d "$packages/diffusers" ]; then
  for package in diffusers huggingface_hub importlib_metadata zipp; do
    (cd "$packages" && find "$package" "$package"-*.dist-info -type f ! -name '*.pyc' -exec cp --parents {} "$box/python" \;)
  done
else
  echo "pack.sh: no diffusers in $peers (tests/peers/setup.sh): the box measures without peers" >&2
fi

tar -C "$work" -cf - ddpm-gpu-box | xz -T0 -6 >"$file"
echo "$file: $(du -m "$file" | cut -f1) MiB, unpacked $(du -sm "$box" | cut -f1) MiB"
