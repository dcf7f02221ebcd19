# What cpack runs on the files of the packages. The service's unit and its configuration are in the package alone, not in what
# cmake --install puts down, because the unit names /usr/bin/saccade.
if(CPACK_SACCADE_SERVE)
  set(unit ${CMAKE_CURRENT_LIST_DIR}/../packaging/systemd)
  file(COPY ${unit}/saccade.service DESTINATION ${CPACK_TEMPORARY_DIRECTORY}/command/usr/lib/systemd/system)
  file(COPY ${unit}/serve.yaml DESTINATION ${CPACK_TEMPORARY_DIRECTORY}/command/etc/saccade)
endif()

# Debian's zsh looks into a folder of its own for completions of packages.
set(zsh ${CPACK_TEMPORARY_DIRECTORY}/command/usr/share/zsh)
if(EXISTS ${zsh}/site-functions)
  file(RENAME ${zsh}/site-functions ${zsh}/vendor-completions)
endif()
