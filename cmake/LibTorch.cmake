# Imported targets for LibTorch, without its own find_package(Torch), which insists on a CUDA toolkit.
#
#   ddpm::torch_cpu    libtorch_cpu, libc10 and the C++ headers
#   ddpm::torch_cuda   libtorch_cuda, libc10_cuda (only with DDPM_CUDA)
#   ddpm::openmp       the OpenMP that LibTorch uses
#
# Where LibTorch is missing or too old, DDPM_TORCH_PROBLEM says so and nothing is imported: the including file decides
# what follows.
#
# The targets are imported, so that an installed package, which brings this file along, can name them without a path.
# Found under CMAKE_PREFIX_PATH or Torch_ROOT (a LibTorch folder, or site-packages/torch of a Python wheel), otherwise
# in the cache that modules/setup.sh fills: DDPM_CACHE_DIR.
if(NOT "$ENV{DDPM_CACHE}" STREQUAL "")
  set(DDPM_CACHE_DIR "$ENV{DDPM_CACHE}")
elseif(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(DDPM_CACHE_DIR "$ENV{XDG_CACHE_HOME}/ddpm")
else()
  set(DDPM_CACHE_DIR "$ENV{HOME}/.cache/ddpm")
endif()
file(GLOB _ddpm_wheels LIST_DIRECTORIES true "${DDPM_CACHE_DIR}/libtorch-*/lib/python3*/site-packages/torch")

find_path(DDPM_TORCH_INCLUDE_DIR ATen/ATen.h PATH_SUFFIXES include torch/include HINTS ${Torch_ROOT} $ENV{Torch_ROOT} ${_ddpm_wheels})
if(NOT DDPM_TORCH_INCLUDE_DIR)
  set(DDPM_TORCH_PROBLEM "LibTorch 2.11 was not found: run modules/setup.sh, or name one with -DCMAKE_PREFIX_PATH=DIR")
  return()
endif()
get_filename_component(DDPM_TORCH_DIR "${DDPM_TORCH_INCLUDE_DIR}" DIRECTORY)
file(READ "${DDPM_TORCH_INCLUDE_DIR}/torch/headeronly/version.h" _torch_version)
string(REGEX REPLACE ".*VERSION_MAJOR ([0-9]+).*VERSION_MINOR ([0-9]+).*VERSION_PATCH ([0-9]+).*" "\\1.\\2.\\3" DDPM_TORCH_VERSION "${_torch_version}")
if(DDPM_TORCH_VERSION VERSION_LESS 2.11)
  set(DDPM_TORCH_PROBLEM "LibTorch in ${DDPM_TORCH_DIR} is version ${DDPM_TORCH_VERSION}; 2.11 or newer is wanted")
  return()
endif()
message(STATUS "LibTorch ${DDPM_TORCH_VERSION}: ${DDPM_TORCH_DIR}")

function(_ddpm_import_torch name)
  find_library(DDPM_${name}_LIBRARY ${name} PATHS "${DDPM_TORCH_DIR}/lib" NO_DEFAULT_PATH REQUIRED)
  add_library(${name} SHARED IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${DDPM_${name}_LIBRARY}" IMPORTED_NO_SONAME TRUE)
endfunction()

_ddpm_import_torch(c10)
_ddpm_import_torch(torch_cpu)
add_library(ddpm::torch_cpu INTERFACE IMPORTED GLOBAL)
# The wheel brings headers of its own copy of fmt, without the library: the site's fmt must be found before them.
get_target_property(_fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
list(GET _fmt_include 0 _fmt_include)
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/include")
file(CREATE_LINK "${_fmt_include}/fmt" "${PROJECT_BINARY_DIR}/include/fmt" SYMBOLIC)
target_include_directories(ddpm::torch_cpu SYSTEM INTERFACE "${PROJECT_BINARY_DIR}/include" "${DDPM_TORCH_INCLUDE_DIR}"
                                                            "${DDPM_TORCH_INCLUDE_DIR}/torch/csrc/api/include")
# The wheel's libtorch_cpu.so looks for libcudart and libcupti by its own RUNPATH (../../nvidia/cu13/lib); the linker need not.
target_link_libraries(ddpm::torch_cpu INTERFACE torch_cpu c10)
target_link_options(ddpm::torch_cpu INTERFACE "LINKER:--allow-shlib-undefined")
# An operator's header brings that operator only.
target_compile_definitions(ddpm::torch_cpu INTERFACE AT_PER_OPERATOR_HEADERS)

# ATen's threads are OpenMP's. A wheel brings its own libgomp, and a process must hold only one.
add_library(ddpm::openmp INTERFACE IMPORTED GLOBAL)
if(EXISTS "${DDPM_TORCH_DIR}/lib/libgomp.so.1")
  target_compile_options(ddpm::openmp INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>)
  target_link_libraries(ddpm::openmp INTERFACE "${DDPM_TORCH_DIR}/lib/libgomp.so.1")
else()
  target_link_libraries(ddpm::openmp INTERFACE OpenMP::OpenMP_CXX)
endif()
