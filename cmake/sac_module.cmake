# sac_module(FOLDER [FOLDERS a b] [SUBFOLDERS c d] [DEPENDS x y] [PUBLIC_LIBS ...] [PRIVATE_LIBS ...])
# One folder is one static library, sac_<name>. FOLDERS within it are part of it and their headers are found by bare name; of
# SUBFOLDERS only the sources are. A library finds its own headers and those of the libraries named in DEPENDS, and no others:
# what these depend on is linked but not seen.
# Files named *_avx2.c, *_avx512.c, *_vnni.c, *_bf16.c and *_amx.c are compiled for that instruction set; nothing else is.
set(SAC_ISA_avx2 -mavx2 -mfma -mf16c)
set(SAC_ISA_avx512 ${SAC_ISA_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
set(SAC_ISA_vnni ${SAC_ISA_avx512} -mavx512vnni)
set(SAC_ISA_bf16 ${SAC_ISA_avx512} -mavx512bf16)
set(SAC_ISA_amx ${SAC_ISA_avx512} -mavx512vnni -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16)

function(sac_module dir)
  cmake_parse_arguments(A "" "" "FOLDERS;SUBFOLDERS;DEPENDS;PUBLIC_LIBS;PRIVATE_LIBS" ${ARGN})
  get_filename_component(name ${dir} NAME)
  set(globs ${dir}/*.c)
  set(seen ${dir})
  foreach(sub ${A_FOLDERS} ${A_SUBFOLDERS})
    list(APPEND globs ${dir}/${sub}/*.c)
  endforeach()
  foreach(sub ${A_FOLDERS})
    list(APPEND seen ${dir}/${sub})
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  list(TRANSFORM seen APPEND /*.h OUTPUT_VARIABLE header_globs)
  file(GLOB headers CONFIGURE_DEPENDS ${header_globs})
  if(NOT sources) # a folder that has only headers so far
    set(sources ${CMAKE_BINARY_DIR}/generated/${name}_headers_only.c)
    file(WRITE ${sources} "typedef int sac_${name}_headers_only;\n")
  endif()
  add_library(sac_${name} STATIC ${sources} ${headers})
  target_link_libraries(sac_${name} PRIVATE sac_flags ${A_PRIVATE_LIBS})
  if(SAC_SANITIZE)
    target_link_options(sac_${name} PUBLIC -fsanitize=${SAC_SANITIZE})
  endif()
  set(optimise -O3)
  if(SAC_SANITIZE)
    set(optimise -O1) # instrumented and unrolled, the kernels would take minutes to compile
  endif()
  if(SAC_FUZZ)
    list(APPEND optimise -fno-sanitize=all) # clang 14 takes minutes all the same; the fuzzers feed parsers, not kernels
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    foreach(isa avx2 avx512 vnni bf16 amx)
      foreach(source ${sources})
        if(source MATCHES "_${isa}\\.c$")
          set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS ${SAC_ISA_${isa}} -ffp-contract=fast ${optimise})
        endif()
      endforeach()
    endforeach()
  endif()
  target_include_directories(sac_${name} PUBLIC ${seen})
  target_link_libraries(sac_${name} PUBLIC ${A_PUBLIC_LIBS})
  set(below ${A_DEPENDS})
  foreach(d ${A_DEPENDS})
    target_link_libraries(sac_${name} PRIVATE sac_${d})
    get_target_property(more sac_${d} SAC_BELOW)
    list(APPEND below ${more})
  endforeach()
  list(REMOVE_DUPLICATES below)
  set_target_properties(sac_${name} PROPERTIES SAC_BELOW "${below}") # for tests, which may look inside: sac_link_with_all
endfunction()

# Links a test with sac_<name> and with all libraries below it, whose headers it finds too.
function(sac_link_with_all target)
  foreach(name ${ARGN})
    target_link_libraries(${target} PRIVATE sac_${name})
    get_target_property(below sac_${name} SAC_BELOW)
    foreach(d ${below})
      target_link_libraries(${target} PRIVATE sac_${d})
    endforeach()
  endforeach()
endfunction()

# Adds a folder's .cu files to a module's library. -lineinfo costs nothing at run time and lets profilers name lines.
function(sac_cuda_sources target folder)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cu)
  target_sources(${target} PRIVATE ${sources})
  target_include_directories(${target} PRIVATE ${folder})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo --expt-relaxed-constexpr>)
endfunction()

# Turns every <folder>/*.yaml into C strings, so that a family's description travels inside the library:
# sac_family_yaml[] = { {"llava", "...text..."}, ... } (declared in models/family.h).
function(sac_embed_yaml target folder)
  file(GLOB yamls CONFIGURE_DEPENDS ${folder}/*.yaml)
  set(out ${CMAKE_BINARY_DIR}/generated/family_yaml.c)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} "-DYAMLS=${yamls}" -P ${CMAKE_SOURCE_DIR}/cmake/embed_yaml.cmake
    DEPENDS ${yamls} ${CMAKE_SOURCE_DIR}/cmake/embed_yaml.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
