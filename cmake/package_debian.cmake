# What cpack runs on the files of the packages: Debian's zsh looks into a folder of its own for completions of packages.
set(zsh ${CPACK_TEMPORARY_DIRECTORY}/command/usr/share/zsh)
if(EXISTS ${zsh}/site-functions)
  file(RENAME ${zsh}/site-functions ${zsh}/vendor-completions)
endif()
