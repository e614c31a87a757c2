# `cmake --install BUILD --prefix P`: the program, and the CMake package ddpm for programs that train models of their own.
#
#   P/bin/ddpm  P/include/ddpm/FOLDER/*.h  P/lib/libddpm_FOLDER.a  P/lib/cmake/ddpm/
#
# The prefix may be moved: nothing in the package says where it was built or installed. LibTorch, MPI and the other
# libraries stay where they are, and are looked for anew.
include(CMakePackageConfigHelpers)
set(ddpm_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ddpm")

# What a program links: ddpm::ddpm there, as the target's name is the program's here.
add_library(ddpm_all INTERFACE)
target_link_libraries(ddpm_all INTERFACE ddpm::train)
set_target_properties(ddpm_all PROPERTIES EXPORT_NAME ddpm)
install(TARGETS ddpm_all EXPORT ddpm)

# The program finds LibTorch where it was linked; that part does not move with the prefix.
set_target_properties(ddpm PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS ddpm RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(DDPM_WITH_CUDA)
  set_target_properties(ddpm_cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ddpm_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/ddpm" FILES_MATCHING PATTERN "*.h"
        PATTERN cli EXCLUDE PATTERN cuda EXCLUDE)
install(EXPORT ddpm NAMESPACE ddpm:: FILE ddpmTargets.cmake DESTINATION "${ddpm_package_dir}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/ddpmConfig.cmake.in" "${PROJECT_BINARY_DIR}/package/ddpmConfig.cmake"
                              INSTALL_DESTINATION "${ddpm_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/ddpmConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/ddpmConfig.cmake" "${PROJECT_BINARY_DIR}/package/ddpmConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/LibTorch.cmake" DESTINATION "${ddpm_package_dir}")
