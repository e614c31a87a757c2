# Toolchain of the presets aarch64 and aarch64-libtorch: compiles for 64-bit Arm on another processor, with Debian's compiler and with the libraries
# that modules/setup.sh --arm has put into the cache. ctest runs what was built under qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

execute_process(
  COMMAND bash -c ". '${CMAKE_CURRENT_LIST_DIR}/../modules/common.sh' && cache_folder"
  OUTPUT_VARIABLE ddpm_arm_root
  OUTPUT_STRIP_TRAILING_WHITESPACE)
string(APPEND ddpm_arm_root "/arm64")
if(NOT EXISTS "${ddpm_arm_root}")
  message(FATAL_ERROR "${ddpm_arm_root} is not there: run modules/setup.sh --arm")
endif()
set(CMAKE_SYSROOT "${ddpm_arm_root}")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L "${ddpm_arm_root}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${ddpm_arm_root}")
set(ENV{PKG_CONFIG_LIBDIR} "${ddpm_arm_root}/usr/lib/aarch64-linux-gnu/pkgconfig:${ddpm_arm_root}/usr/share/pkgconfig")

file(GLOB Torch_ROOT LIST_DIRECTORIES true "${ddpm_arm_root}/opt/libtorch-*/torch")

# Their compilers are programs for Arm, which cannot be asked.
set(ddpm_arm_libraries "${ddpm_arm_root}/usr/lib/aarch64-linux-gnu")
set(MPI_C_LIB_NAMES mpi)
set(MPI_C_HEADER_DIR "${ddpm_arm_libraries}/openmpi/include")
set(MPI_mpi_LIBRARY "${ddpm_arm_libraries}/openmpi/lib/libmpi.so")
set(HDF5_C_COMPILER_EXECUTABLE OFF)
set(HDF5_C_INCLUDE_DIR "${ddpm_arm_root}/usr/include/hdf5/openmpi")
set(HDF5_hdf5_LIBRARY_RELEASE "${ddpm_arm_libraries}/hdf5/openmpi/libhdf5.so")
