/* build_info.c - what this library is made of. */
#include "cpu_flags.h"
#include "cuda_libraries.h"
#include "video.h"

#include <saccade/saccade.h>

#include <pthread.h>
#include <string.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "a compiler that does not say its name"
#endif

static sac_build_info build;

/* GPL 3 is the one that goes together with the Apache License, and what GPL 2 "or later" allows. */
static const char *licence_with(const char *ffmpeg) {
    if (!ffmpeg || !strncmp(ffmpeg, "LGPL", 4)) return "Apache-2.0";
    return !strncmp(ffmpeg, "GPL", 3) ? "GPL-3.0-or-later" : "nonfree";
}

static void fill_once(void) {
    static char cpu[64];
    build = (sac_build_info){.version = SAC_VERSION, .compiler = COMPILER};
    build.cpu = sac_cpu_flags_text(sac_cpu_flags(), cpu, sizeof cpu);
#ifdef SAC_CUDA
    build.cuda = SAC_CUDA_BUILD;
    build.cudnn = sac_ops_cudnn_version();
#endif
    build.ffmpeg = sac_video_library(&build.ffmpeg_licence);
    build.licence = licence_with(build.ffmpeg_licence);
}

const char *sac_version(void) {
    return SAC_VERSION;
}

void sac_get_build_info(sac_build_info *info) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_once);
    *info = build;
}
