# cmake --install: the command with its manual pages, completions and the papers' tables of `reproduce`, the public headers, the demo
# model (tables and model are found beside the command's bin), the licence. cmake/package.cmake makes a package of each component.
if(SAC_COMMAND)
  install(TARGETS saccade_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
  set(pages ${PROJECT_BINARY_DIR}/generated/pages)
  set(SAC_ZSH_FOLDER ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "Where zsh looks for completions")
  install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command FILES_MATCHING PATTERN "*.1")
  install(FILES ${pages}/saccade.bash RENAME saccade DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT command)
  install(FILES ${pages}/_saccade DESTINATION ${SAC_ZSH_FOLDER} COMPONENT command)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/samples/reproduce DESTINATION ${CMAKE_INSTALL_DATADIR}/saccade COMPONENT command
    FILES_MATCHING PATTERN "*.yaml")
  install(FILES ${pages}/saccade.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT command)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/saccade DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
  FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/demo/ DESTINATION ${CMAKE_INSTALL_DATADIR}/saccade/demo COMPONENT demo)
