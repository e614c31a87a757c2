# The CUDA part, libddpm_cuda.so: include() after LibTorch. Reads DDPM_CUDA and sets DDPM_WITH_CUDA:
#
#   AUTO   on where nvcc, LibTorch's CUDA libraries and NCCL are found, and nvcc has the major version of LibTorch's CUDA
#   ON     an error where one of them is missing, or nvcc has another version
#   OFF    not looked for
#
# Imported targets: ddpm::torch_cuda (libtorch_cuda, libc10_cuda, the CUDA runtime), ddpm::nccl.
# Building needs a toolkit and the LibTorch wheel; running also needs the libraries that libtorch_cuda opens (cuDNN, cuFile,
# cuSPARSELt, NVSHMEM), which the linker is told not to look for. Nothing here needs a GPU.
set(DDPM_WITH_CUDA OFF)

# Sets _ddpm_cuda_of_torch and _ddpm_cuda_of_nvcc to the versions of CUDA that LibTorch's wheel and nvcc name; empty: none is named.
function(_ddpm_cuda_versions)
  set(text "")
  if(EXISTS "${DDPM_TORCH_DIR}/version.py")
    file(STRINGS "${DDPM_TORCH_DIR}/version.py" text REGEX "^cuda[ :=]")
  endif()
  string(REGEX MATCH "[0-9]+\\.[0-9]+" of_torch "${text}")
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --version OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCH "release [0-9]+\\.[0-9]+" of_nvcc "${text}")
  string(REPLACE "release " "" of_nvcc "${of_nvcc}")
  set(_ddpm_cuda_of_torch "${of_torch}" PARENT_SCOPE)
  set(_ddpm_cuda_of_nvcc "${of_nvcc}" PARENT_SCOPE)
endfunction()

# Sets DDPM_CUDA_MISSING to what is missing, and the paths of what was found.
macro(_ddpm_find_cuda)
  set(DDPM_CUDA_MISSING "")
  # CUDACXX and CMAKE_CUDA_COMPILER come first; PATH often lacks the toolkit.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(DDPM_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda "${DDPM_TORCH_DIR}/../nvidia/cu13"
                 PATH_SUFFIXES bin)
    if(DDPM_NVCC)
      set(CMAKE_CUDA_COMPILER "${DDPM_NVCC}")
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  find_library(DDPM_torch_cuda_LIBRARY torch_cuda PATHS "${DDPM_TORCH_DIR}/lib" NO_DEFAULT_PATH)
  find_library(DDPM_c10_cuda_LIBRARY c10_cuda PATHS "${DDPM_TORCH_DIR}/lib" NO_DEFAULT_PATH)
  get_filename_component(_ddpm_cuda_home "${CMAKE_CUDA_COMPILER}" DIRECTORY)
  get_filename_component(_ddpm_cuda_home "${_ddpm_cuda_home}" DIRECTORY)
  # The PyPI package of NCCL lies beside torch and has no link without a version.
  set(_ddpm_nccl_hints ENV NCCL_ROOT_DIR ENV NCCL_HOME "${_ddpm_cuda_home}" "${DDPM_TORCH_DIR}/../nvidia/nccl")
  find_path(DDPM_NCCL_INCLUDE_DIR nccl.h HINTS ${_ddpm_nccl_hints} PATH_SUFFIXES include)
  find_library(DDPM_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${_ddpm_nccl_hints} PATH_SUFFIXES lib64 lib)

  if(NOT CMAKE_CUDA_COMPILER)
    set(DDPM_CUDA_MISSING "no nvcc: set CUDACXX or CUDA_HOME, or run modules/setup.sh --cuda")
  elseif(NOT DDPM_torch_cuda_LIBRARY OR NOT DDPM_c10_cuda_LIBRARY)
    set(DDPM_CUDA_MISSING "no libtorch_cuda.so in ${DDPM_TORCH_DIR}/lib")
  elseif(NOT DDPM_NCCL_INCLUDE_DIR OR NOT DDPM_NCCL_LIBRARY)
    set(DDPM_CUDA_MISSING "no NCCL: set NCCL_ROOT_DIR, or run modules/setup.sh --cuda")
  else()
    _ddpm_cuda_versions()
    string(REGEX REPLACE "\\..*" "" _ddpm_cuda_wanted "${_ddpm_cuda_of_torch}")
    string(REGEX REPLACE "\\..*" "" _ddpm_cuda_found "${_ddpm_cuda_of_nvcc}")
    if(_ddpm_cuda_wanted AND _ddpm_cuda_found AND NOT _ddpm_cuda_wanted EQUAL _ddpm_cuda_found)
      set(DDPM_CUDA_MISSING
          "nvcc ${_ddpm_cuda_of_nvcc} alone, while LibTorch was built with CUDA ${_ddpm_cuda_of_torch}: load CUDA ${_ddpm_cuda_wanted}, or set CUDACXX")
    endif()
  endif()
endmacro()

function(_ddpm_cuda_targets)
  foreach(name IN ITEMS c10_cuda torch_cuda)
    add_library(${name} SHARED IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${DDPM_${name}_LIBRARY}" IMPORTED_NO_SONAME TRUE)
  endforeach()
  add_library(ddpm_torch_cuda INTERFACE)
  add_library(ddpm::torch_cuda ALIAS ddpm_torch_cuda)
  # libtorch_cuda registers the CUDA backend when it is loaded: it must stay even where no symbol of it is used.
  target_link_libraries(ddpm_torch_cuda INTERFACE torch_cuda c10_cuda ddpm::torch_cpu CUDA::cudart)
  target_link_options(ddpm_torch_cuda INTERFACE "LINKER:--no-as-needed")

  add_library(ddpm_nccl SHARED IMPORTED GLOBAL)
  set_target_properties(ddpm_nccl PROPERTIES IMPORTED_LOCATION "${DDPM_NCCL_LIBRARY}" IMPORTED_NO_SONAME TRUE)
  target_include_directories(ddpm_nccl SYSTEM INTERFACE "${DDPM_NCCL_INCLUDE_DIR}")
  add_library(ddpm::nccl ALIAS ddpm_nccl)
endfunction()

if(DDPM_CUDA STREQUAL "OFF")
  message(STATUS "CUDA part: off (DDPM_CUDA=OFF)")
  return()
endif()

_ddpm_find_cuda()
if(DDPM_CUDA_MISSING)
  if(DDPM_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DDPM_CUDA=ON, but there is ${DDPM_CUDA_MISSING}.")
  endif()
  message(STATUS "CUDA part: off (${DDPM_CUDA_MISSING})")
  return()
endif()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "80;90") # A100, H100 and H200
endif()
enable_language(CUDA)
# This follows enable_language, since CMake's own test of the compiler would otherwise need the flags that it is meant
# to find.
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake before 3.26 does not know that nvcc 12 and newer do
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
find_package(CUDAToolkit REQUIRED)
_ddpm_cuda_targets()
file(READ "${DDPM_NCCL_INCLUDE_DIR}/nccl.h" _ddpm_nccl_version)
string(REGEX REPLACE ".*NCCL_MAJOR ([0-9]+).*NCCL_MINOR ([0-9]+).*NCCL_PATCH ([0-9]+).*" "\\1.\\2.\\3" _ddpm_nccl_version
                     "${_ddpm_nccl_version}")
set(DDPM_WITH_CUDA ON)
message(STATUS "CUDA part: on (nvcc ${CMAKE_CUDA_COMPILER_VERSION}, NCCL ${_ddpm_nccl_version}, for ${CMAKE_CUDA_ARCHITECTURES})")
