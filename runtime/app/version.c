#include "version.h"

#include "commit.h" /* made by cmake/commit.cmake */

#include <saccade/saccade.h>

#include <stdio.h>
#include <string.h>

static void print_cuda(const sac_build_info *b) {
    printf("cuda      %s\n", b->cuda ? b->cuda : "none");
    if (b->cudnn)
        printf("cudnn     %d.%d.%d\n", b->cudnn / 10000, b->cudnn / 100 % 100, b->cudnn % 100);
    else if (b->cuda)
        puts("cudnn     not found");
}

static void print_licence(const sac_build_info *b) {
    printf("licence   %s", b->licence);
    if (!strcmp(b->licence, "GPL-3.0-or-later"))
        printf(": Saccade's own Apache-2.0, together with FFmpeg's");
    else if (!strcmp(b->licence, "nonfree"))
        printf(": with this FFmpeg it may not be passed on");
    putchar('\n');
}

void version_print(void) {
    sac_build_info b;
    sac_get_build_info(&b);
    printf("saccade %s%s\n", b.version, SAC_COMMIT[0] ? " (commit " SAC_COMMIT ")" : "");
    printf("compiler  %s\ncpu       %s\n", b.compiler, b.cpu);
    print_cuda(&b);
    if (b.ffmpeg)
        printf("ffmpeg    %s, %s\n", b.ffmpeg, b.ffmpeg_licence);
    else
        puts("ffmpeg    none: no video, no WebP");
    puts("pictures  " SAC_PICTURE_FORMATS);
    print_licence(&b);
}
