# Imported targets for LibTorch, without its own find_package(Torch), which insists on a CUDA toolkit.
#
#   ddpm::torch_cpu    libtorch_cpu, libc10 and the C++ headers
#   ddpm::torch_cuda   libtorch_cuda, libc10_cuda (only with DDPM_CUDA)
#
# Found under CMAKE_PREFIX_PATH or Torch_ROOT (a LibTorch folder, or site-packages/torch of a Python wheel), else in the cache that
# modules/setup.sh fills.
if(DEFINED ENV{DDPM_CACHE})
  set(_ddpm_cache "$ENV{DDPM_CACHE}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_ddpm_cache "$ENV{XDG_CACHE_HOME}/ddpm")
else()
  set(_ddpm_cache "$ENV{HOME}/.cache/ddpm")
endif()
file(GLOB _ddpm_wheels LIST_DIRECTORIES true "${_ddpm_cache}/libtorch-*/lib/python3*/site-packages/torch")

find_path(DDPM_TORCH_INCLUDE_DIR ATen/ATen.h PATH_SUFFIXES include torch/include HINTS ${Torch_ROOT} ${_ddpm_wheels})
if(NOT DDPM_TORCH_INCLUDE_DIR)
  message(FATAL_ERROR "LibTorch 2.11 was not found. Run modules/setup.sh, or name a LibTorch with -DCMAKE_PREFIX_PATH=DIR.")
endif()
get_filename_component(DDPM_TORCH_DIR "${DDPM_TORCH_INCLUDE_DIR}" DIRECTORY)
file(STRINGS "${DDPM_TORCH_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h" _torch_version REGEX "define TORCH_VERSION \"")
string(REGEX REPLACE ".*\"([^\"]+)\".*" "\\1" DDPM_TORCH_VERSION "${_torch_version}")
if(DDPM_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "LibTorch in ${DDPM_TORCH_DIR} is version ${DDPM_TORCH_VERSION}; 2.11 or newer is wanted.")
endif()
message(STATUS "LibTorch ${DDPM_TORCH_VERSION}: ${DDPM_TORCH_DIR}")

function(_ddpm_import_torch name)
  find_library(DDPM_${name}_LIBRARY ${name} PATHS "${DDPM_TORCH_DIR}/lib" NO_DEFAULT_PATH REQUIRED)
  add_library(${name} SHARED IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${DDPM_${name}_LIBRARY}" IMPORTED_NO_SONAME TRUE)
endfunction()

_ddpm_import_torch(c10)
_ddpm_import_torch(torch_cpu)
add_library(ddpm_torch_cpu INTERFACE)
add_library(ddpm::torch_cpu ALIAS ddpm_torch_cpu)
target_include_directories(ddpm_torch_cpu SYSTEM INTERFACE "${DDPM_TORCH_INCLUDE_DIR}"
                                                           "${DDPM_TORCH_INCLUDE_DIR}/torch/csrc/api/include")
# The wheel's libtorch_cpu.so looks for libcudart and libcupti by its own RUNPATH (../../nvidia/cu13/lib); the linker need not.
target_link_libraries(ddpm_torch_cpu INTERFACE torch_cpu c10)
target_link_options(ddpm_torch_cpu INTERFACE "LINKER:--allow-shlib-undefined")
