/* frames.c - feeds frames that FFmpeg's libraries decode: frames MODEL VIDEO QUESTION [SECONDS]
 *
 * A program that has its own decoder (a camera, a player, a pipeline) gives the library pixels and times. This one looks at a
 * frame every so many seconds (0.5), of the first MAX_FRAMES such, and asks as it would of a video file. */
#include <saccade/saccade.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_FRAMES = 32 };

typedef struct video {
    AVFormatContext *file;
    AVCodecContext *decoder;
    struct SwsContext *to_rgb;
    int stream, width, height; /* all frames are given the first one's size, as the library wants them */
    uint8_t *rgb;              /* MAX_FRAMES pictures, one behind the other */
    double time_s[MAX_FRAMES];
    size_t n_frames;
} video;

static bool open_video(video *v, const char *path) {
    const AVCodec *codec = NULL;
    if (avformat_open_input(&v->file, path, NULL, NULL) < 0 || avformat_find_stream_info(v->file, NULL) < 0)
        return false;
    v->stream = av_find_best_stream(v->file, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    if (v->stream < 0) return false;
    v->decoder = avcodec_alloc_context3(codec);
    return v->decoder &&
           avcodec_parameters_to_context(v->decoder, v->file->streams[v->stream]->codecpar) >= 0 &&
           avcodec_open2(v->decoder, codec, NULL) >= 0;
}

/* Appends the frame, if it is due. */
static bool take(video *v, const AVFrame *f, double every_s) {
    double t = (double)f->best_effort_timestamp * av_q2d(v->file->streams[v->stream]->time_base);
    if (v->n_frames == MAX_FRAMES || (v->n_frames && t < v->time_s[v->n_frames - 1] + every_s - 1e-6))
        return true;
    if (!v->rgb) v->width = f->width, v->height = f->height;
    size_t frame_bytes = (size_t)v->width * (size_t)v->height * 3;
    if (!v->rgb) v->rgb = malloc(MAX_FRAMES * frame_bytes);
    v->to_rgb = sws_getCachedContext(v->to_rgb, f->width, f->height, f->format, v->width, v->height,
                                     AV_PIX_FMT_RGB24, SWS_BICUBIC, NULL, NULL, NULL);
    if (!v->rgb || !v->to_rgb) return false;
    uint8_t *to[] = {v->rgb + v->n_frames * frame_bytes};
    int stride[] = {3 * v->width};
    sws_scale(v->to_rgb, (const uint8_t *const *)f->data, f->linesize, 0, f->height, to, stride);
    v->time_s[v->n_frames++] = t;
    return true;
}

static bool decode(video *v, double every_s) {
    AVPacket *packet = av_packet_alloc();
    AVFrame *frame = av_frame_alloc();
    bool ok = packet && frame, ended = false;
    while (ok && !ended) {
        int read = av_read_frame(v->file, packet);
        if (read >= 0 && packet->stream_index != v->stream) {
            av_packet_unref(packet);
            continue;
        }
        ended = read < 0;
        avcodec_send_packet(v->decoder, ended ? NULL : packet); /* a damaged packet is left out */
        av_packet_unref(packet);
        while (ok && avcodec_receive_frame(v->decoder, frame) >= 0) ok = take(v, frame, every_s);
    }
    av_frame_free(&frame);
    av_packet_free(&packet);
    return ok && v->n_frames;
}

static sac_status ask(const char *path, const video *v, const char *text, sac_error *err) {
    sac_model *model = NULL;
    sac_session *session = NULL;
    sac_result result;
    sac_pixels pixels = {
        .width = v->width, .height = v->height, .rgb = v->rgb, .n_frames = v->n_frames, .time_s = v->time_s};
    sac_part parts[] = {{.kind = SAC_PART_PIXELS, .pixels = pixels}, {.kind = SAC_PART_TEXT, .text = text}};
    sac_message question = {.role = "user", .parts = parts, .n_parts = 2};
    sac_status st = sac_model_open(&model, path, NULL, err);
    if (st == SAC_OK) st = sac_session_create(&session, model, NULL, err);
    if (st == SAC_OK) st = sac_session_generate(session, &question, 1, NULL, NULL, &result, err);
    if (st == SAC_OK) printf("%s\n", result.text);
    if (st == SAC_OK)
        fprintf(stderr, "frames: %d of %zu frames seen\n", result.media[0].n_frames, v->n_frames);
    sac_session_free(session);
    sac_model_free(model);
    return st;
}

int main(int argc, char **argv) {
    video v = {0};
    sac_error err;
    double every_s = argc > 4 ? atof(argv[4]) : 0.5;
    if (argc < 4 || argc > 5 || !(every_s > 0)) {
        fprintf(stderr, "usage: frames MODEL VIDEO QUESTION [SECONDS]\n");
        return 64;
    }
    sac_status st = SAC_BAD_FILE;
    if (open_video(&v, argv[2]) && decode(&v, every_s))
        st = ask(argv[1], &v, argv[3], &err);
    else
        snprintf(err.text, sizeof err.text, "%s: no video that FFmpeg can read", argv[2]);
    if (st != SAC_OK) fprintf(stderr, "frames: %s\n", err.text);
    free(v.rgb);
    sws_freeContext(v.to_rgb);
    avcodec_free_context(&v.decoder);
    avformat_close_input(&v.file);
    return sac_status_exit_code(st);
}
