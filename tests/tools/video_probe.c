/* video_probe.c - what video.h makes of a file, as JSON lines, for the comparison with PyAV and the memory
 * check.
 *
 *   video_probe [--fps F] [--num-frames N] [--max-frames N] [--threads N] [--rotate none] [--raw FILE] VIDEO
 *
 * First a line about the video, one for each chosen frame (index, time, size, SHA-256 of its RGB bytes), last
 * a line about the work. --raw appends the RGB bytes of all chosen frames to FILE. */
#include "video.h"

#include <getopt.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct probe {
    const sac_frame_plan *plan;
    FILE *raw;
} probe;

static sac_status print_frame(void *ctx, int64_t i, double time_s, const sac_image *frame, sac_error *err) {
    const probe *p = ctx;
    size_t n_bytes = (size_t)frame->width * (size_t)frame->height * 3;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n_digest = 0;
    if (!EVP_Digest(frame->rgb, n_bytes, digest, &n_digest, EVP_sha256(), NULL))
        return sac_fail(err, SAC_INTERNAL, "no SHA-256");
    printf("{\"frame\": %lld, \"time_s\": %.17g, \"width\": %d, \"height\": %d, \"sha256\": \"",
           (long long)p->plan->index[i], time_s, frame->width, frame->height);
    for (unsigned k = 0; k < n_digest; k++) printf("%02x", digest[k]);
    printf("\"}\n");
    if (p->raw && fwrite(frame->rgb, 1, n_bytes, p->raw) != n_bytes)
        return sac_fail(err, SAC_IO, "cannot write the raw frames");
    return SAC_OK;
}

/* Largest resident size of this process so far, in kilobytes. */
static long peak_kb(void) {
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kb) == 1) break;
    if (f) fclose(f);
    return kb;
}

static void print_info(const sac_video_info *info, const sac_frame_plan *plan) {
    printf(
        "{\"container\": \"%s\", \"codec\": \"%s\", \"pixel_format\": \"%s\", \"width\": %d, \"height\": %d, "
        "\"rotation\": %d, \"mirrored\": %s, \"variable_rate\": %s, \"n_frames\": %lld, \"n_key_frames\": "
        "%lld, "
        "\"fps\": %.17g, \"duration_s\": %.17g, \"start_s\": %.17g, \"plan\": \"%s\"}\n",
        info->container, info->codec, info->pixel_format, info->width, info->height, info->rotation_degrees,
        info->mirrored ? "true" : "false", info->variable_rate ? "true" : "false", (long long)info->n_frames,
        (long long)info->n_key_frames, info->fps, info->duration_s, info->start_s, plan->text);
}

static sac_status run(const char *path, const sac_frame_request *request, const sac_video_limits *limits,
                      sac_rotate rotate, FILE *raw, sac_error *err) {
    sac_video *video = NULL;
    sac_frame_plan plan = {0};
    sac_video_read_stats stats = {0};
    sac_status st;
    SAC_TRY_GOTO(st, sac_video_open(&video, path, limits, err), done);
    SAC_TRY_GOTO(st, sac_video_plan(video, request, &plan, err), done);
    print_info(sac_video_get_info(video), &plan);
    probe p = {&plan, raw};
    SAC_TRY_GOTO(st, sac_video_read(video, &plan, rotate, print_frame, &p, &stats, err), done);
    printf("{\"decoded\": %lld, \"seeks\": %lld, \"replaced\": %lld, \"peak_kb\": %ld}\n",
           (long long)stats.n_decoded, (long long)stats.n_seeks, (long long)stats.n_replaced, peak_kb());
done:
    sac_frame_plan_free(&plan);
    sac_video_free(video);
    return st;
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"fps", 1, NULL, 'f'},     {"num-frames", 1, NULL, 'n'}, {"max-frames", 1, NULL, 'm'},
        {"threads", 1, NULL, 't'}, {"rotate", 1, NULL, 'r'},     {"raw", 1, NULL, 'w'},
        {NULL, 0, NULL, 0}};
    sac_frame_request request = {0};
    sac_video_limits limits = sac_video_limits_default();
    sac_rotate rotate = SAC_ROTATE_AUTO;
    FILE *raw = NULL;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'f': request.has_fps = true, request.fps = atof(optarg); break;
        case 'n': request.has_num_frames = true, request.num_frames = atoll(optarg); break;
        case 'm': request.has_max_frames = true, request.max_frames = atoll(optarg); break;
        case 't': limits.n_threads = atoi(optarg); break;
        case 'r': rotate = strcmp(optarg, "none") == 0 ? SAC_ROTATE_NONE : SAC_ROTATE_AUTO; break;
        case 'w': raw = fopen(optarg, "ab"); break;
        default: return 64;
        }
    }
    if (optind + 1 != argc) {
        fprintf(stderr, "usage: video_probe [--fps F] [--num-frames N] [--max-frames N] [--threads N] "
                        "[--rotate none] [--raw FILE] VIDEO\n");
        return 64;
    }
    sac_error err = {0};
    sac_status st = run(argv[optind], &request, &limits, rotate, raw, &err);
    if (st != SAC_OK) fprintf(stderr, "video_probe: %s\n", err.text);
    if (raw) fclose(raw);
    return sac_status_exit_code(st);
}
