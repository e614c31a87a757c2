# ddpm_add_library(NAME [TORCH] [QUICK] [KERNELS] SOURCES ... [DEPENDS ...])
#   One static library per folder of src: target ddpm_NAME, alias ddpm::NAME. Headers are included as "NAME/file.h".
#   It is installed, with the others, as part of the CMake package.
#   TORCH: links LibTorch and uses its precompiled header in place of that of the standard headers. There is no such library, nor
#   test, with DDPM_TORCH=OFF.
#   QUICK: it decides, calls and reports, and its own loops are short. It is compiled with -O1, which takes a third less time.
#   KERNELS: loops with compiler options of their own, which include next to nothing, and no precompiled header.
# ddpm_embed_texts(SOURCE HEADER NAMESPACE name=FILE ...)
#   Makes SOURCE in the build folder, which holds the texts that HEADER declares as functions: cmake/embed_texts.cmake. FILEs are
#   those of this folder.
# ddpm_add_test(NAME [TORCH] [MPI] [OPTIMIZED] [RANKS 1 2 4] [LABELS ...] [TIMEOUT seconds] [NOT_EMULATED ...] SOURCES ...
#               [DEPENDS ...] [ARGS ...] [ARGS_ON_4 ...])
#   One GoogleTest program; with MPI, one ctest entry per number of ranks (NAME.np2), started by mpiexec. It is compiled without
#   optimization, which halves the time of its build, unless it is OPTIMIZED (-O1): for tests that hold much computing themselves.
#   ARGS_ON_4: arguments in place of ARGS on 4 ranks, for tests of which some alone want so many.
#   NOT_EMULATED: tests, by GoogleTest's names, of a process's limits of memory and files, which an emulator exceeds by itself. They are
#   left out where one runs the tests.
# ddpm_add_test_program(NAME [TORCH] SOURCES ... [DEPENDS ...])
#   A program that scripts of tests start, compiled as the tests are.
# ddpm_add_gpu_test(NAME SOURCES ... [DEPENDS ...])
#   One GoogleTest program for CUDA tensors, label gpu. It is compiled wherever libddpm_cuda.so is, and run by ctest where a GPU was
#   found (DDPM_GPU).
# ddpm_add_script_test(NAME COMMAND ... [LABELS ...] [TIMEOUT seconds] [PROCESSORS n])
#   A test that is a script or a program of ours with arguments; it has DDPM (the program) and DDPM_SOURCE_DIR in its environment,
#   and its own empty working folder. Where there is no program (DDPM_TORCH=OFF), neither is a test but of a program of tests.
# ddpm_add_loss_test(NAME SCRIPT.sh SOURCE LIBRARY)
#   What ranks of the small program SOURCE do when something is lost, or fails on one of them: `SCRIPT.sh PROGRAM MPIEXEC FLAGS...`.
# ddpm_add_python_test(NAME FILE.py [PEERS] [ARGS ...] [LABELS ...] [TIMEOUT seconds] [PROCESSORS n])
#   The same for a file of this folder in Python, which leaves no bytecode beside it. PEERS: run by the interpreter that has diffusers,
#   h5py and the like.
# ddpm_compile_alone(SOURCES ...)
#   With DDPM_UNITY, these sources are still compiled one by one: their anonymous namespaces hold names that others of the folder
#   hold, too.
include(CMakeParseArguments)

set(CMAKE_UNITY_BUILD ${DDPM_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)

function(ddpm_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

add_library(ddpm_warnings INTERFACE)
target_compile_options(
  ddpm_warnings
  INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall
            -Wextra
            -Wconversion
            -Wshadow
            -Wnon-virtual-dtor
            -Woverloaded-virtual>)
if(DDPM_WERROR)
  target_compile_options(ddpm_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

set(DDPM_TEST_OPTIMIZATION $<$<CONFIG:Release>:-O0>)
set(DDPM_QUICK_OPTIMIZATION $<$<CONFIG:Release>:-O1>)

# A hundred test programs are linked by the quickest linker that is there; what is installed, by the compiler's own.
set(DDPM_TEST_LINKER "")
include(CheckLinkerFlag)
foreach(linker IN ITEMS lld gold)
  check_linker_flag(CXX "-fuse-ld=${linker}" DDPM_LINKS_WITH_${linker})
  if(DDPM_LINKS_WITH_${linker} AND NOT DDPM_TEST_LINKER)
    set(DDPM_TEST_LINKER "-fuse-ld=${linker}")
  endif()
endforeach()

# Precompiled headers are built once each: one for the libraries without LibTorch, one for those that include it. A source whose
# options define or change a macro (-fno-math-errno and the like) cannot use one: SKIP_PRECOMPILE_HEADERS.
add_library(ddpm_std_pch STATIC "${CMAKE_CURRENT_LIST_DIR}/torch_pch.cpp")
target_link_libraries(ddpm_std_pch PUBLIC nlohmann_json::nlohmann_json fmt::fmt PRIVATE ddpm_warnings)
target_precompile_headers(ddpm_std_pch PRIVATE "${CMAKE_CURRENT_LIST_DIR}/std_pch.h")
if(DDPM_TORCH)
  add_library(ddpm_torch_pch STATIC "${CMAKE_CURRENT_LIST_DIR}/torch_pch.cpp")
  target_link_libraries(ddpm_torch_pch PUBLIC ddpm::torch_cpu ddpm::openmp nlohmann_json::nlohmann_json fmt::fmt
                        PRIVATE ddpm_warnings)
  target_include_directories(ddpm_torch_pch PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_precompile_headers(ddpm_torch_pch PRIVATE "${CMAKE_CURRENT_LIST_DIR}/torch_pch.h")
endif()

# Tests are compiled without optimization, so they have precompiled headers of their own: GoogleTest, with and without
# LibTorch.
if(DDPM_TESTS)
  set(ddpm_test_kinds "")
  if(DDPM_TORCH)
    list(APPEND ddpm_test_kinds torch_)
  endif()
  foreach(kind IN ITEMS "" ${ddpm_test_kinds})
    set(target ddpm_${kind}test_pch)
    add_library(${target} STATIC "${CMAKE_CURRENT_LIST_DIR}/torch_pch.cpp")
    target_link_libraries(${target} PUBLIC GTest::gmock nlohmann_json::nlohmann_json fmt::fmt PRIVATE ddpm_warnings)
    target_compile_options(${target} PRIVATE ${DDPM_TEST_OPTIMIZATION})
    target_precompile_headers(${target} PRIVATE "${CMAKE_CURRENT_LIST_DIR}/test_pch.h")
  endforeach()
  if(DDPM_TORCH)
    target_link_libraries(ddpm_torch_test_pch PUBLIC ddpm::torch_cpu ddpm::openmp)
    target_precompile_headers(ddpm_torch_test_pch PRIVATE "${CMAKE_CURRENT_LIST_DIR}/torch_pch.h")
  endif()
endif()

# A precompiled header serves only targets with its flags, such as -fPIC in place of -fPIE.
function(_ddpm_reuse_pch target from)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${from})
endfunction()

function(_ddpm_use_torch target)
  # at::parallel_for is a template: without OpenMP's flag it would run on one thread.
  target_link_libraries(${target} PUBLIC ddpm::torch_cpu ddpm::openmp)
  _ddpm_reuse_pch(${target} ddpm_torch_pch)
endfunction()

# A test that is not OPTIMIZED is compiled so.
function(_ddpm_compile_quickly target torch)
  target_compile_options(${target} PRIVATE ${DDPM_TEST_OPTIMIZATION})
  if(torch)
    target_link_libraries(${target} PUBLIC ddpm::torch_cpu ddpm::openmp)
    _ddpm_reuse_pch(${target} ddpm_torch_test_pch)
  else()
    _ddpm_reuse_pch(${target} ddpm_test_pch)
  endif()
endfunction()

function(ddpm_add_library name)
  cmake_parse_arguments(arg "TORCH;QUICK;KERNELS" "" "SOURCES;DEPENDS" ${ARGN})
  if(arg_TORCH AND NOT DDPM_TORCH)
    return()
  endif()
  add_library(ddpm_${name} STATIC ${arg_SOURCES})
  add_library(ddpm::${name} ALIAS ddpm_${name})
  target_include_directories(ddpm_${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>" "$<INSTALL_INTERFACE:include/ddpm>")
  target_link_libraries(ddpm_${name} PUBLIC ${arg_DEPENDS} PRIVATE "$<BUILD_INTERFACE:ddpm_warnings>")
  set_target_properties(ddpm_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ddpm_${name} EXPORT ddpm ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  set_property(GLOBAL APPEND PROPERTY DDPM_INSTALLED_PARTS "development|ddpm_${name}|$<TARGET_FILE:ddpm_${name}>")
  if(arg_TORCH)
    _ddpm_use_torch(ddpm_${name})
  elseif(NOT arg_KERNELS)
    _ddpm_reuse_pch(ddpm_${name} ddpm_std_pch)
  endif()
  if(arg_QUICK)
    target_compile_options(ddpm_${name} PRIVATE ${DDPM_QUICK_OPTIMIZATION})
  endif()
endfunction()

function(ddpm_embed_texts source header namespace)
  set(texts "${ARGN}")
  list(TRANSFORM texts REPLACE "=" "=${CMAKE_CURRENT_SOURCE_DIR}/")
  set(files "${texts}")
  list(TRANSFORM files REPLACE "^[a-z_]+=" "")
  add_custom_command(
    OUTPUT "${source}"
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${source}" -DHEADER=${header} -DNAMESPACE=${namespace} "-DTEXTS=${texts}" -P
            "${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake"
    DEPENDS ${files} "${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake"
    VERBATIM)
endfunction()

function(ddpm_add_test name)
  cmake_parse_arguments(arg "TORCH;MPI;OPTIMIZED" "TIMEOUT" "RANKS;LABELS;SOURCES;DEPENDS;ARGS;ARGS_ON_4;NOT_EMULATED" ${ARGN})
  if(arg_TORCH AND NOT DDPM_TORCH)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(arg_NOT_EMULATED AND CMAKE_CROSSCOMPILING_EMULATOR)
    list(JOIN arg_NOT_EMULATED ":" left_out)
    message(STATUS "Tests left out of ${name} (limits that the emulator exceeds): ${left_out}")
    list(APPEND arg_ARGS "--gtest_filter=-${left_out}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE DDPM_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gmock ddpm_warnings)
  target_link_options(${name} PRIVATE ${DDPM_TEST_LINKER})
  if(NOT arg_OPTIMIZED)
    _ddpm_compile_quickly(${name} ${arg_TORCH})
  else()
    target_compile_options(${name} PRIVATE ${DDPM_QUICK_OPTIMIZATION})
    if(arg_TORCH)
      _ddpm_use_torch(${name})
    endif()
  endif()
  if(NOT arg_MPI)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
    add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "unit;${arg_LABELS}" ENVIRONMENT "${DDPM_TEST_ENVIRONMENT}")
    return()
  endif()
  target_link_libraries(${name} PRIVATE ddpm_test_mpi)
  foreach(ranks IN LISTS arg_RANKS)
    set(arguments ${arg_ARGS})
    if(ranks EQUAL 4 AND arg_ARGS_ON_4)
      set(arguments ${arg_ARGS_ON_4})
    endif()
    add_test(NAME ${name}.np${ranks} COMMAND ${MPIEXEC_EXECUTABLE} ${DDPM_MPIEXEC_FLAGS} -np ${ranks} ${CMAKE_CROSSCOMPILING_EMULATOR}
                                             $<TARGET_FILE:${name}> ${arguments})
    set_tests_properties(
      ${name}.np${ranks}
      PROPERTIES TIMEOUT ${arg_TIMEOUT}
                 PROCESSORS ${ranks}
                 LABELS "mpi;np${ranks};${arg_LABELS}"
                 ENVIRONMENT "${DDPM_TEST_ENVIRONMENT}")
  endforeach()
endfunction()

function(ddpm_add_test_program name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gmock ddpm_warnings)
  target_link_options(${name} PRIVATE ${DDPM_TEST_LINKER})
  _ddpm_compile_quickly(${name} ${arg_TORCH})
endfunction()

function(ddpm_add_gpu_test name)
  if(NOT DDPM_WITH_CUDA)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES} "${PROJECT_SOURCE_DIR}/tests/support/gpu_main.cpp")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE DDPM_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} ddpm::device_facts GTest::gmock ddpm_warnings)
  target_link_options(${name} PRIVATE ${DDPM_TEST_LINKER})
  _ddpm_compile_quickly(${name} TRUE)
  add_dependencies(${name} ddpm_cuda)
  if(DDPM_GPU)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS gpu RESOURCE_LOCK gpu
                                        ENVIRONMENT "${DDPM_TEST_ENVIRONMENT};DDPM_CUDA_LIBRARY=$<TARGET_FILE:ddpm_cuda>")
  endif()
endfunction()

function(ddpm_add_script_test name)
  cmake_parse_arguments(arg "" "TIMEOUT;PROCESSORS" "COMMAND;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  list(GET arg_COMMAND 0 command)
  if(DDPM_TORCH)
    set(program "DDPM=$<TARGET_FILE:ddpm>")
  elseif(TARGET "${command}")
    set(program "")
  else()
    return()
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}.work")
  file(MAKE_DIRECTORY "${folder}")
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY "${folder}")
  set_tests_properties(
    ${name}
    PROPERTIES TIMEOUT ${arg_TIMEOUT}
               PROCESSORS ${arg_PROCESSORS}
               LABELS "${arg_LABELS}"
               ENVIRONMENT "${DDPM_TEST_ENVIRONMENT};${DDPM_TEST_LAUNCHER};${program};DDPM_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
endfunction()

function(ddpm_add_loss_test name script source library)
  string(REPLACE "." "_" program "${name}_rank")
  add_executable(${program} ${source})
  target_link_libraries(${program} PRIVATE ${library} ddpm_warnings)
  ddpm_add_script_test(
    ${name}
    COMMAND
    "${CMAKE_CURRENT_SOURCE_DIR}/${script}"
    $<TARGET_FILE:${program}>
    "${MPIEXEC_EXECUTABLE}"
    ${DDPM_MPIEXEC_FLAGS}
    LABELS
    mpi
    TIMEOUT
    60
    PROCESSORS
    2)
endfunction()

function(ddpm_add_python_test name file)
  cmake_parse_arguments(arg "PEERS" "TIMEOUT;PROCESSORS" "ARGS;LABELS" ${ARGN})
  set(python "${Python3_EXECUTABLE}")
  if(arg_PEERS)
    set(python "${DDPM_PEERS_PYTHON}")
  endif()
  ddpm_add_script_test(
    ${name}
    COMMAND
    "${python}"
    -B
    "${CMAKE_CURRENT_SOURCE_DIR}/${file}"
    ${arg_ARGS}
    LABELS
    ${arg_LABELS}
    TIMEOUT
    ${arg_TIMEOUT}
    PROCESSORS
    ${arg_PROCESSORS})
endfunction()

# What lets mpiexec start more ranks than there are cores, and through what srun does.
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE ddpm_mpiexec_version ERROR_QUIET)
if(ddpm_mpiexec_version MATCHES "Open MPI|OpenRTE")
  set(DDPM_MPI openmpi)
  set(DDPM_MPIEXEC_FLAGS --oversubscribe --bind-to none)
  set(ddpm_srun_mpi pmix)
  set(ddpm_variable_of_ranks --mca mca_base_env_list) # -x would mean the first of several programs alone
else()
  set(DDPM_MPI mpich)
  set(DDPM_MPIEXEC_FLAGS -bind-to none)
  set(ddpm_srun_mpi pmi2)
  set(ddpm_variable_of_ranks -genv)
endif()
# Ranks load what compares their collectives. A sanitizer wants to be loaded first, and does without.
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  list(APPEND DDPM_MPIEXEC_FLAGS ${ddpm_variable_of_ranks} "LD_PRELOAD=$<TARGET_FILE:ddpm_collective_check>")
endif()
list(JOIN DDPM_MPIEXEC_FLAGS " " ddpm_mpiexec_words)
set(DDPM_TEST_LAUNCHER "DDPM_MPIEXEC=${MPIEXEC_EXECUTABLE};DDPM_MPIEXEC_FLAGS=${ddpm_mpiexec_words};DDPM_TEST_SRUN_MPI=${ddpm_srun_mpi}")

# Tests share few cores: one thread per rank, idle ranks yield, and root (a container's usual user) may start mpiexec. When a
# rank ends with an error, mpiexec sleeps for a second before each of two signals to ranks that have ended, too: hundreds of
# refusals need no such sleep.
set(DDPM_TEST_ENVIRONMENT
    "OMP_NUM_THREADS=1;OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_mpi_yield_when_idle=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_hwloc_base_binding_policy=none;OMPI_MCA_odls_base_sigkill_timeout=0"
)
