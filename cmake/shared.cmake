# SAC_SHARED=ON: libsaccade.so beside the archives that the command is linked from. Its objects are a second set,
# position-independent, because addressing through tables would slow the command down; kernels/cpu, whose loops address nothing so,
# has one set for both. Only what the public headers declare (SAC_API) can be seen in it. Everything a module is compiled with is taken from the module's archive.
# With CMAKE_POSITION_INDEPENDENT_CODE and CMAKE_C_VISIBILITY_PRESET=hidden the archives' own objects serve: half of the compiling.
set(SAC_SHARED_MODULES base device kernels sparse kvquant text kv llm vision process towers weights families rounding models engine)
add_library(saccade_shared SHARED)
set(one_set OFF)
if(CMAKE_POSITION_INDEPENDENT_CODE AND CMAKE_C_VISIBILITY_PRESET STREQUAL hidden AND NOT SAC_CUDA)
  set(one_set ON)
endif()

foreach(name ${SAC_SHARED_MODULES})
  get_target_property(sources sac_${name} SOURCES)
  list(FILTER sources EXCLUDE REGEX TARGET_OBJECTS) # of kernels/cpu
  get_target_property(options sac_${name} COMPILE_OPTIONS)
  get_target_property(definitions sac_${name} COMPILE_DEFINITIONS)
  get_target_property(folders sac_${name} INCLUDE_DIRECTORIES)
  get_target_property(libraries sac_${name} LINK_LIBRARIES)
  if(one_set)
    target_sources(saccade_shared PRIVATE $<TARGET_OBJECTS:sac_${name}>)
    list(FILTER libraries EXCLUDE REGEX "sac_")
    target_link_libraries(saccade_shared PRIVATE ${libraries})
    continue()
  endif()
  add_library(sac_${name}_shared OBJECT ${sources})
  set_target_properties(sac_${name}_shared PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden
    CUDA_VISIBILITY_PRESET hidden)
  target_include_directories(sac_${name}_shared PRIVATE ${folders})
  target_include_directories(sac_${name}_shared SYSTEM PRIVATE $<$<STREQUAL:${name},vision>:${STB_INCLUDE}>)
  target_link_libraries(sac_${name}_shared PRIVATE ${libraries})
  if(options)
    target_compile_options(sac_${name}_shared PRIVATE ${options})
  endif()
  if(definitions)
    target_compile_definitions(sac_${name}_shared PRIVATE ${definitions})
  endif()
  target_sources(saccade_shared PRIVATE $<TARGET_OBJECTS:sac_${name}_shared>)
  list(FILTER libraries EXCLUDE REGEX "sac_")
  target_link_libraries(saccade_shared PRIVATE ${libraries})
endforeach()
target_sources(saccade_shared PRIVATE $<TARGET_OBJECTS:sac_kernels_isa>)
if(NOT one_set)
  add_dependencies(sac_families_shared sac_families) # a file that both are compiled from is generated once
endif()

set_target_properties(saccade_shared PROPERTIES OUTPUT_NAME saccade EXPORT_NAME saccade VERSION ${PROJECT_VERSION}
  SOVERSION ${SAC_SOVERSION} LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
if(SAC_CUDA)
  set_target_properties(saccade_shared PROPERTIES LINKER_LANGUAGE CUDA)
endif()
target_include_directories(saccade_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(saccade_shared PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL)

# For those who build with it: pkg-config's saccade.pc, and find_package(saccade) with its target saccade::saccade.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/saccade)
install(TARGETS saccade_shared EXPORT saccade LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libsaccade${SAC_SOVERSION} COMPONENT library)
install(EXPORT saccade NAMESPACE saccade:: FILE saccadeConfig.cmake DESTINATION ${package} COMPONENT dev)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/saccadeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/saccadeConfigVersion.cmake DESTINATION ${package} COMPONENT dev)
configure_file(cmake/saccade.pc.in saccade.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/saccade.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
