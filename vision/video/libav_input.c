#define _GNU_SOURCE
#ifdef SAC_VIDEO

#include "libav_input.h"

#include "libav_container.h"
#include "libav_versions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/pixdesc.h>

#define MAX_THREADS 16  /* each holds frames of its own */
#define MAX_CUT_OFF 256 /* as many packets as any decoder holds back */
#define MAX_TICKS   (INT64_MAX / 4)

static const enum AVCodecID allowed_codecs[] = {
    AV_CODEC_ID_H264,      AV_CODEC_ID_HEVC,      AV_CODEC_ID_VP8,        AV_CODEC_ID_VP9,
    AV_CODEC_ID_AV1,       AV_CODEC_ID_MPEG4,     AV_CODEC_ID_MPEG1VIDEO, AV_CODEC_ID_MPEG2VIDEO,
    AV_CODEC_ID_H263,      AV_CODEC_ID_FLV1,      AV_CODEC_ID_MJPEG,      AV_CODEC_ID_GIF,
    AV_CODEC_ID_PNG,       AV_CODEC_ID_APNG,      AV_CODEC_ID_PRORES,     AV_CODEC_ID_THEORA,
    AV_CODEC_ID_MSMPEG4V1, AV_CODEC_ID_MSMPEG4V2, AV_CODEC_ID_MSMPEG4V3,  AV_CODEC_ID_WMV1,
    AV_CODEC_ID_WMV2,      AV_CODEC_ID_WMV3,      AV_CODEC_ID_VC1,        AV_CODEC_ID_FFV1,
};

struct sac_libav_input {
    sac_byte_source source;
    int64_t max_pixels;
    AVFormatContext *container;
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *scratch, *newest;
    AVRational tick_s;
    int stream;
    bool cut;
    bool packet_pending; /* packet is one that the decoder could not take yet */
    bool waits_for_key;  /* after a jump: packets are dropped up to the one shown at wanted_key */
    int64_t wanted_key;
    sac_wanted_fn wanted;
    void *wanted_ctx;
    int64_t cut_off[MAX_CUT_OFF]; /* times of the last packets fed that an edit list cuts off, a ring */
    int64_t n_cut_off;
    int width, height, pixel_format; /* of the first frame */
};

static sac_status open_container(sac_libav_input *in, sac_error *err) {
    sac_libav_container_close(&in->container);
    in->cut = false;
    return sac_libav_container_open(&in->container, &in->stream, &in->source, in->max_pixels, err);
}

const char *sac_video_library(const char **licence) {
    *licence = avutil_license();
    return av_version_info();
}

/* ---- decoder ---- */

static sac_status find_decoder(const AVCodecParameters *par, const AVCodec **codec, sac_error *err) {
    bool allowed = false;
    for (size_t i = 0; i < SAC_COUNT(allowed_codecs); i++) allowed |= par->codec_id == allowed_codecs[i];
    *codec = allowed ? avcodec_find_decoder(par->codec_id) : NULL;
    if (*codec) return SAC_OK;
    if (par->codec_id == AV_CODEC_ID_NONE)
        return sac_fail(err, SAC_BAD_FILE,
                        "the codec of the video is unknown: the file is damaged or of a rare kind");
    return sac_fail(err, SAC_UNSUPPORTED,
                    "video codec %s is not supported: convert the file, e.g. with ffmpeg -c:v libx264",
                    avcodec_get_name(par->codec_id));
}

static int default_threads(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 8 ? 8 : (int)n;
}

static sac_status open_decoder(sac_libav_input *in, int n_threads, sac_error *err) {
    const AVStream *s = in->container->streams[in->stream];
    const AVCodecParameters *par = s->codecpar;
    const AVCodec *codec;
    SAC_TRY(find_decoder(par, &codec, err));
    if (par->height > 0 && par->width > in->max_pixels / par->height)
        return sac_fail(err, SAC_BAD_FILE, "frames of %d x %d pixels: more than the limit of %" PRId64,
                        par->width, par->height, in->max_pixels);
    in->decoder = avcodec_alloc_context3(codec);
    if (!in->decoder || avcodec_parameters_to_context(in->decoder, par) < 0) return sac_libav_no_memory(err);
    in->decoder->thread_count = n_threads < 1             ? default_threads()
                                : n_threads < MAX_THREADS ? n_threads
                                                          : MAX_THREADS;
    in->decoder->pkt_timebase = s->time_base;
    in->decoder->max_pixels = sac_libav_padded_limit(in->max_pixels);
    int r = avcodec_open2(in->decoder, codec, NULL);
    if (r == AVERROR(ENOMEM)) return sac_libav_no_memory(err);
    if (r < 0)
        return sac_fail(err, SAC_BAD_FILE, "the %s decoder refuses the video: the file is damaged",
                        codec->name);
    return SAC_OK;
}

static sac_status open_all(sac_libav_input *in, const sac_video_limits *limits, sac_error *err) {
    in->packet = av_packet_alloc();
    in->scratch = av_frame_alloc();
    in->newest = av_frame_alloc();
    if (!in->packet || !in->scratch || !in->newest) return sac_libav_no_memory(err);
    SAC_TRY(open_container(in, err));
    in->tick_s = in->container->streams[in->stream]->time_base;
    if (in->tick_s.num <= 0 || in->tick_s.den <= 0)
        return sac_fail(err, SAC_BAD_FILE, "the video has no clock: the file is damaged");
    return open_decoder(in, limits->n_threads, err);
}

sac_status sac_libav_input_open(sac_libav_input **out, int fd, const uint8_t *bytes, int64_t n_bytes,
                                const sac_video_limits *limits, sac_error *err) {
    *out = NULL;
    sac_libav_set_up();
    sac_libav_input *in = calloc(1, sizeof *in);
    if (!in) {
        if (fd >= 0) close(fd);
        return sac_libav_no_memory(err);
    }
    in->source = (sac_byte_source){.fd = fd, .bytes = bytes, .n_bytes = n_bytes};
    in->max_pixels = limits->max_pixels;
    sac_status st = open_all(in, limits, err);
    if (st == SAC_OK)
        *out = in;
    else
        sac_libav_input_free(in);
    return st;
}

void sac_libav_input_free(sac_libav_input *in) {
    if (!in) return;
    avcodec_free_context(&in->decoder);
    sac_libav_container_close(&in->container);
    av_packet_free(&in->packet);
    av_frame_free(&in->scratch);
    av_frame_free(&in->newest);
    if (in->source.fd >= 0) close(in->source.fd);
    free(in);
}

/* ---- facts ---- */

double sac_libav_input_seconds(const sac_libav_input *in, int64_t ticks) {
    return (double)ticks * in->tick_s.num / in->tick_s.den; /* in PyAV's order, for the same rounding */
}

int64_t sac_libav_input_bytes(const sac_libav_input *in) {
    return in->source.n_bytes;
}

bool sac_libav_input_is_cut(const sac_libav_input *in) {
    return in->cut;
}

static sac_turn stated_turn(const AVStream *s) {
    int32_t matrix[9];
    size_t n_bytes = 0;
    const uint8_t *stored = sac_libav_display_matrix(s, &n_bytes);
    if (!stored || n_bytes < sizeof matrix) return (sac_turn){false, false, false};
    memcpy(matrix, stored, sizeof matrix);
    return sac_turn_from_matrix(matrix);
}

void sac_libav_input_describe(const sac_libav_input *in, sac_video_info *info, sac_turn *turn) {
    const AVStream *s = in->container->streams[in->stream];
    *turn = stated_turn(s);
    info->rotation_degrees = sac_turn_degrees(*turn, &info->mirrored);
    info->stored_width = in->width;
    info->stored_height = in->height;
    info->width = turn->transpose ? in->height : in->width;
    info->height = turn->transpose ? in->width : in->height;
    info->fps = s->avg_frame_rate.num > 0 && s->avg_frame_rate.den > 0 ? av_q2d(s->avg_frame_rate) : 0;
    const char *format = av_get_pix_fmt_name(in->pixel_format);
    snprintf(info->pixel_format, sizeof info->pixel_format, "%s", format ? format : "unknown");
    snprintf(info->codec, sizeof info->codec, "%s", avcodec_get_name(in->decoder->codec_id));
    snprintf(info->container, sizeof info->container, "%s", in->container->iformat->name);
}

/* ---- packets ---- */

static bool is_tick(int64_t t) { /* AV_NOPTS_VALUE is INT64_MIN */
    return t > -MAX_TICKS && t < MAX_TICKS;
}

/* VP8 and VP9 store frames that are only referred to. (VP9's mostly ride in one packet with
 * a shown frame.) */
static bool is_hidden(enum AVCodecID codec, const AVPacket *p) {
    if (p->size < 1) return true;
    unsigned first = p->data[0];
    if (codec == AV_CODEC_ID_VP8) return !(first & 0x10);
    if (codec != AV_CODEC_ID_VP9) return false;
    if ((p->data[p->size - 1] & 0xe0) == 0xc0) return false; /* ends with an index: several frames */
    if ((first & 0x30) == 0x30) first <<= 1;                 /* profile 3 has one more bit before these */
    bool repeats = (first & 0x08) != 0, shown = (first & 0x02) != 0;
    return !repeats && !shown;
}

static int read_packet(sac_libav_input *in) {
    if (!in->container) return AVERROR_EOF; /* a restart has failed */
    return av_read_frame(in->container, in->packet);
}

sac_step sac_libav_input_scan(sac_libav_input *in, sac_packet_head *head) {
    memset(head, 0, sizeof *head);
    int r = read_packet(in);
    if (r == AVERROR(ENOMEM)) return SAC_STEP_NO_MEMORY;
    if (r < 0) {
        in->cut = r != AVERROR_EOF;
        return SAC_STEP_END;
    }
    const AVPacket *p = in->packet;
    head->n_bytes = p->size;
    head->is_ours = p->stream_index == in->stream && p->size > 0;
    if (head->is_ours) {
        head->has_time = is_tick(p->pts);
        head->pts = head->has_time ? p->pts : 0;
        /* Matroska's own index is by presentation, the others' by decoding. */
        bool by_pts = strstr(in->container->iformat->name, "matroska") != NULL || !is_tick(p->dts);
        head->seek_ts = by_pts ? head->pts : p->dts;
        head->is_key = (p->flags & AV_PKT_FLAG_KEY) != 0;
        head->is_shown = !(p->flags & AV_PKT_FLAG_DISCARD) && !is_hidden(in->decoder->codec_id, p);
        head->is_whole = !(p->flags & AV_PKT_FLAG_CORRUPT);
    }
    av_packet_unref(in->packet);
    return SAC_STEP_DONE;
}

static bool take_packet(sac_libav_input *in, bool *lost) {
    const AVPacket *p = in->packet;
    if (p->stream_index != in->stream) return false;
    if (!in->waits_for_key) return true;
    if (!(p->flags & AV_PKT_FLAG_KEY)) return false;
    *lost = p->pts > in->wanted_key;
    in->waits_for_key = p->pts != in->wanted_key;
    return !in->waits_for_key;
}

/* The next packet for the decoder into in->packet. */
static sac_step next_packet(sac_libav_input *in) {
    for (;;) {
        int r = read_packet(in);
        if (r == AVERROR(ENOMEM)) return SAC_STEP_NO_MEMORY;
        if (r < 0) return in->waits_for_key ? SAC_STEP_LOST : SAC_STEP_END;
        bool lost = false;
        if (take_packet(in, &lost)) return SAC_STEP_DONE;
        av_packet_unref(in->packet);
        if (lost) return SAC_STEP_LOST;
    }
}

/* Gives the decoder one packet, or the end. */
static sac_step feed(sac_libav_input *in) {
    if (!in->packet_pending) {
        sac_step step = next_packet(in);
        if (step == SAC_STEP_END) {
            avcodec_send_packet(in->decoder, NULL);
            return SAC_STEP_DONE;
        }
        if (step != SAC_STEP_DONE) return step;
    }
    if (in->packet->flags & AV_PKT_FLAG_DISCARD) in->cut_off[in->n_cut_off++ % MAX_CUT_OFF] = in->packet->pts;
    bool wanted = !in->wanted || in->wanted(in->wanted_ctx, in->packet->pts);
    in->decoder->skip_frame = wanted ? AVDISCARD_DEFAULT : AVDISCARD_NONREF;
    int r = avcodec_send_packet(in->decoder, in->packet);
    in->packet_pending = r == AVERROR(EAGAIN);
    if (!in->packet_pending) av_packet_unref(in->packet);
    return r == AVERROR(ENOMEM) ? SAC_STEP_NO_MEMORY : SAC_STEP_DONE;
}

static void note_format(sac_libav_input *in, const AVFrame *f) {
    in->width = f->width;
    in->height = f->height;
    in->pixel_format = f->format;
}

/* libavcodec drops what an edit list cuts off after decoding it, but not what libdav1d decodes. */
static bool is_cut_off(const sac_libav_input *in, const AVFrame *f) {
    int64_t n = in->n_cut_off < MAX_CUT_OFF ? in->n_cut_off : MAX_CUT_OFF;
    for (int64_t i = 0; i < n; i++)
        if (f->pts != AV_NOPTS_VALUE && in->cut_off[i] == f->pts) return true;
    return false;
}

sac_step sac_libav_input_decode(sac_libav_input *in) {
    for (;;) {
        int r = avcodec_receive_frame(in->decoder, in->scratch);
        if (r == 0 && is_cut_off(in, in->scratch)) continue;
        if (r == 0) {
            av_frame_unref(in->newest);
            av_frame_move_ref(in->newest, in->scratch);
            if (in->width == 0) note_format(in, in->newest);
            return SAC_STEP_DONE;
        }
        if (r == AVERROR_EOF) return SAC_STEP_END;
        if (r == AVERROR(ENOMEM)) return SAC_STEP_NO_MEMORY;
        sac_step step = feed(in);
        if (step != SAC_STEP_DONE) return step;
    }
}

const struct AVFrame *sac_libav_input_newest(const sac_libav_input *in, int64_t *pts, bool *has_time) {
    const AVFrame *f = in->newest;
    if (!f->data[0]) return NULL;
    *pts = is_tick(f->pts) ? f->pts : f->best_effort_timestamp;
    *has_time = is_tick(*pts);
    if (!*has_time) *pts = 0;
    return f;
}

void sac_libav_input_set_wanted(sac_libav_input *in, sac_wanted_fn wanted, void *ctx) {
    in->wanted = wanted;
    in->wanted_ctx = ctx;
}

void sac_libav_input_forget(sac_libav_input *in) {
    avcodec_flush_buffers(in->decoder);
    av_packet_unref(in->packet);
    av_frame_unref(in->newest);
    in->packet_pending = false;
    in->waits_for_key = false;
    in->n_cut_off = 0;
}

bool sac_libav_input_jump(sac_libav_input *in, int64_t pts, int64_t seek_ts) {
    sac_libav_input_forget(in);
    in->waits_for_key = true;
    in->wanted_key = pts;
    if (!in->container) return false;
    return av_seek_frame(in->container, in->stream, seek_ts, AVSEEK_FLAG_BACKWARD) >= 0;
}

sac_status sac_libav_input_restart(sac_libav_input *in, sac_error *err) {
    int stream = in->stream;
    sac_libav_input_forget(in);
    SAC_TRY(open_container(in, err));
    if (in->stream == stream) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "the video's streams cannot be read: the file changed while in use");
}

#else
typedef int sac_libav_input_is_absent;
#endif
