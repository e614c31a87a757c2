# `cmake --install BUILD --prefix P [--component program]`: the program with all that it needs but MPI and HDF5, and the CMake
# package ddpm for programs that train models of their own.
#
#   program       P/bin/ddpm  P/lib/libddpm_cuda.so (with CUDA)  P/lib/ddpm/*.so: LibTorch and small libraries
#                 P/share/ddpm/{jobs,modulefiles,site.template.sh}  P/share/doc/ddpm: documentation, licences
#   development   P/include/ddpm/FOLDER/*.h  P/lib/libddpm_FOLDER.a  P/lib/cmake/ddpm/
#
# The prefix may be moved. The program looks for its libraries in ../lib/ddpm from where it lies; for MPI and HDF5 in
# LD_LIBRARY_PATH, where they were when it was linked, and where the system has its libraries. A package manager that has
# LibTorch (Spack, EasyBuild) says -DDDPM_CARRY_LIBRARIES=OFF: then nothing is copied, and LibTorch too is looked for where it
# was linked.
#
# CPack packs the component program (see the end).
include(CMakePackageConfigHelpers)
option(DDPM_CARRY_LIBRARIES "Install the libraries that the program needs, but for MPI, HDF5, and those of the system's compiler" ON)
string(REGEX REPLACE " +" " " _ddpm_site_modules "$ENV{DDPM_SITE_MODULES}") # modules/site.template.sh sets it
string(STRIP "${_ddpm_site_modules}" _ddpm_site_modules)
set(DDPM_SITE_MODULES "${_ddpm_site_modules}" CACHE STRING "Modules, separated by spaces, that the installed module files load first")
set(ddpm_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ddpm")
set(ddpm_carried_dir "${CMAKE_INSTALL_LIBDIR}/ddpm")
set(ddpm_modulefiles "${CMAKE_INSTALL_DATADIR}/ddpm/modulefiles")
set(ddpm_doc "${CMAKE_INSTALL_DATADIR}/doc/ddpm")

# --- The program ------------------------------------------------------------------------------------------------------

# Sets the RUNPATH that `target` has in the build tree, and the one that it gets when it is installed in `folder`: the carried
# libraries, then the folders of the linked libraries that the site provides (`ARGN`), unless the linker knows them.
#
# CMake's own rewriting at installation is not used, because it needs a RUNPATH that ends in an empty element in the build
# tree, and the loader reads an empty element as the working directory. So the program is linked with all folders that either
# tree wants, and _ddpm_rewrite_runpath() leaves fewer of them.
function(_ddpm_install_rpath target folder)
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  if(CMAKE_SKIP_RPATH OR CMAKE_SKIP_INSTALL_RPATH)
    return()
  endif()
  file(RELATIVE_PATH carried "/${folder}" "/${ddpm_carried_dir}")
  set(installed "$ORIGIN/${carried}")
  foreach(library IN LISTS ARGN)
    file(REAL_PATH "${library}" real)
    get_filename_component(real "${real}" DIRECTORY)
    if(NOT real IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
      get_filename_component(place "${library}" DIRECTORY)
      list(APPEND installed "${place}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES installed)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${DDPM_TORCH_DIR}/lib;${installed}" INSTALL_RPATH_USE_LINK_PATH ON)
  # The linker may let another string of the file share the end of this one. No other string ends in a slash, so none changes
  # when this one is rewritten.
  list(GET MPI_C_LIBRARIES 0 last)
  get_filename_component(last "${last}" DIRECTORY)
  target_link_libraries(${target} PRIVATE "-Wl,-rpath,${last}/")
  set_target_properties(${target} PROPERTIES DDPM_INSTALLED_RUNPATH "${installed}")
endfunction()

# Rewrites the RUNPATH after the installation of `target` in `folder`. Without carried libraries the target continues to
# look where it was linked.
function(_ddpm_rewrite_runpath target folder)
  get_target_property(runpath ${target} DDPM_INSTALLED_RUNPATH)
  if(NOT runpath OR NOT DDPM_CARRY_LIBRARIES)
    return()
  endif()
  list(JOIN runpath ":" runpath)
  string(REPLACE "$" "\\$" runpath "${runpath}")
  set(file "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/$<TARGET_FILE_NAME:${target}>")
  install(CODE "file(RPATH_SET FILE \"${file}\" NEW_RPATH \"${runpath}\")" COMPONENT program)
endfunction()

# Has `target` need what the libraries `ARGN` need, such as libxml2 for libarchive. Its RUNPATH leads to the libraries that it
# needs itself, and would not count for theirs.
function(_ddpm_need_libraries_of target)
  execute_process(COMMAND ldd ${ARGN} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "=> /[^ ]+" needed "${said}")
  list(TRANSFORM needed REPLACE "^=> " "")
  list(REMOVE_DUPLICATES needed)
  list(FILTER needed EXCLUDE REGEX "/lib(c|m|dl|rt|pthread|util|resolv|stdc\\+\\+|gcc_s)\\.so[^/]*$")
  target_link_libraries(${target} PRIVATE "-Wl,--push-state,--no-as-needed" ${needed} "-Wl,--pop-state")
endfunction()

# FindHDF5 also lists what HDF5 itself was linked with.
set(ddpm_site_libraries ${HDF5_C_LIBRARIES})
list(FILTER ddpm_site_libraries INCLUDE REGEX "/libhdf5[^/]*$")
list(APPEND ddpm_site_libraries ${MPI_C_LIBRARIES})
_ddpm_install_rpath(ddpm "${CMAKE_INSTALL_BINDIR}" ${ddpm_site_libraries})
if(DDPM_CARRY_LIBRARIES)
  _ddpm_need_libraries_of(ddpm ${DDPM_PICTURES_LINK_LIBRARIES} ${FREETYPE_LIBRARIES})
endif()
install(TARGETS ddpm RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
_ddpm_rewrite_runpath(ddpm "${CMAKE_INSTALL_BINDIR}")
if(DDPM_WITH_CUDA)
  _ddpm_install_rpath(ddpm_cuda "${CMAKE_INSTALL_LIBDIR}" ${ddpm_site_libraries} "${DDPM_NCCL_LIBRARY}")
  install(TARGETS ddpm_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT program)
  _ddpm_rewrite_runpath(ddpm_cuda "${CMAKE_INSTALL_LIBDIR}")
endif()
# Fills in cmake/NAME.cmake.in, for a step of the installation.
function(_ddpm_configure_step name)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.cmake.in" "${PROJECT_BINARY_DIR}/package/${name}.cmake.in" @ONLY)
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/package/${name}.cmake" INPUT "${PROJECT_BINARY_DIR}/package/${name}.cmake.in")
endfunction()

get_property(ddpm_installed_parts GLOBAL PROPERTY DDPM_INSTALLED_PARTS)
list(APPEND ddpm_installed_parts "program|ddpm|$<TARGET_FILE:ddpm>")
set(ddpm_cuda_file "")
if(DDPM_WITH_CUDA)
  set(ddpm_cuda_file "$<TARGET_FILE:ddpm_cuda>")
  list(APPEND ddpm_installed_parts "program|ddpm_cuda|${ddpm_cuda_file}")
endif()
list(TRANSFORM ddpm_installed_parts REPLACE "(.+)" "\"\\1\"")
list(JOIN ddpm_installed_parts " " ddpm_installed_parts)
_ddpm_configure_step(before_install)

if(DDPM_CARRY_LIBRARIES)
  # Libraries of headers only.
  set(ddpm_compiled_in "")
  foreach(header IN ITEMS CLI/CLI.hpp kissfft/kissfft.hh nlohmann/json.hpp)
    find_file(_ddpm_header ${header} REQUIRED NO_CACHE)
    list(APPEND ddpm_compiled_in "\"${_ddpm_header}\"")
    unset(_ddpm_header)
  endforeach()
  list(JOIN ddpm_compiled_in " " ddpm_compiled_in)
  _ddpm_configure_step(carry_libraries)
  install(SCRIPT "${PROJECT_BINARY_DIR}/package/carry_libraries.cmake" COMPONENT program)
endif()

# --- What belongs to it -----------------------------------------------------------------------------------------------

install(DIRECTORY "${PROJECT_SOURCE_DIR}/jobs/" DESTINATION "${CMAKE_INSTALL_DATADIR}/ddpm/jobs" COMPONENT program
        USE_SOURCE_PERMISSIONS PATTERN quickstart.sh EXCLUDE PATTERN site.sh EXCLUDE PATTERN __pycache__ EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/modules/site.template.sh" DESTINATION "${CMAKE_INSTALL_DATADIR}/ddpm" COMPONENT program)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${ddpm_doc}" COMPONENT program)
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md" "${PROJECT_SOURCE_DIR}/LICENSE"
              "${PROJECT_SOURCE_DIR}/CITATION.cff" DESTINATION "${ddpm_doc}" COMPONENT program)

# One folder for both module systems: Lmod takes NAME/VERSION.lua, Environment Modules see no module in that file.
file(RELATIVE_PATH ddpm_modulefile_to_root "/${ddpm_modulefiles}/ddpm" "/")
foreach(language IN ITEMS lua tcl)
  configure_file("${PROJECT_SOURCE_DIR}/modules/ddpm.${language}.in" "${PROJECT_BINARY_DIR}/package/ddpm.${language}" @ONLY)
endforeach()
install(FILES "${PROJECT_BINARY_DIR}/package/ddpm.lua" DESTINATION "${ddpm_modulefiles}/ddpm" COMPONENT program
        RENAME "${PROJECT_VERSION}.lua")
install(FILES "${PROJECT_BINARY_DIR}/package/ddpm.tcl" DESTINATION "${ddpm_modulefiles}/ddpm" COMPONENT program
        RENAME "${PROJECT_VERSION}")

# --- The CMake package ------------------------------------------------------------------------------------------------

# What a program links: ddpm::ddpm there, as the target's name is the program's here.
add_library(ddpm_all INTERFACE)
target_link_libraries(ddpm_all INTERFACE ddpm::train)
set_target_properties(ddpm_all PROPERTIES EXPORT_NAME ddpm)
install(TARGETS ddpm_all EXPORT ddpm)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/ddpm" COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN cli EXCLUDE PATTERN cuda EXCLUDE)
install(EXPORT ddpm NAMESPACE ddpm:: FILE ddpmTargets.cmake DESTINATION "${ddpm_package_dir}" COMPONENT development)
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/ddpmConfig.cmake.in" "${PROJECT_BINARY_DIR}/package/ddpmConfig.cmake"
                              INSTALL_DESTINATION "${ddpm_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/ddpmConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/ddpmConfig.cmake" "${PROJECT_BINARY_DIR}/package/ddpmConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/LibTorch.cmake" DESTINATION "${ddpm_package_dir}" COMPONENT development)

# --- CPack ------------------------------------------------------------------------------------------------------------

# `cpack --config BUILD/CPackConfig.cmake`: one folder, packed, that may be unpacked anywhere. In it is the program for one
# kind of MPI and one of HDF5; share/doc/ddpm/libraries.txt in it says which.
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" ddpm_system)
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME ddpm)
set(CPACK_PACKAGE_VENDOR "the authors of ddpm")
if(DDPM_WITH_CUDA)
  set(CPACK_PACKAGE_FILE_NAME "ddpm-${PROJECT_VERSION}-${ddpm_system}-cuda")
else()
  set(CPACK_PACKAGE_FILE_NAME "ddpm-${PROJECT_VERSION}-${ddpm_system}-cpu")
endif()
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};ddpm;program;/")
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)

# --- The manual and the shells' completions, which the program itself makes -----------------------------------------------

set(ddpm_spoken "${PROJECT_BINARY_DIR}/package/spoken")
_ddpm_configure_step(ask_program)
install(DIRECTORY "${ddpm_spoken}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT program)
install(FILES "${ddpm_spoken}/bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME ddpm COMPONENT program)
install(FILES "${ddpm_spoken}/zsh" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" RENAME _ddpm COMPONENT program)
install(FILES "${ddpm_spoken}/fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" RENAME ddpm.fish COMPONENT program)
