# cmake -DSOURCE=DIR -DOUT=FILE -P commit.cmake: a header with the commit of the source tree, SAC_COMMIT, written only when it has
# changed. It is "" where there is no git, or no repository of this tree's own.
set(commit "")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty=-changed --abbrev=12 --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(content "#define SAC_COMMIT \"${commit}\"\n")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT "${content}" STREQUAL "${before}")
  file(WRITE ${OUT} "${content}")
endif()
