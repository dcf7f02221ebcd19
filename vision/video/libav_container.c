#define _GNU_SOURCE
#ifdef SAC_VIDEO

#include "libav_container.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libavformat/avformat.h>

#define IO_BUFFER_BYTES (64 * 1024)
#define MAX_ALLOC_BYTES ((size_t)1 << 30) /* of one block in libav: sample tables of hostile files */
#define MAX_STREAMS     256

static const char allowed_containers[] =
    "mov,matroska,avi,mpegts,mpeg,mpegvideo,flv,gif,apng,ogg,asf,h264,hevc,m4v,ivf,obu,mjpeg";
static const char allowed_decoders[] = "h264,hevc,vp8,vp9,libdav1d,libaom-av1,av1,mpeg4,mpeg1video,"
                                       "mpeg2video,mpegvideo,h263,flv,mjpeg,gif,png,apng,"
                                       "prores,theora,msmpeg4v1,msmpeg4v2,msmpeg4,wmv1,wmv2,wmv3,vc1,ffv1";

static void be_silent(void *ctx, int level, const char *format, va_list args) {
    (void)ctx, (void)level, (void)format, (void)args;
}

static void set_up_once(void) {
    av_log_set_callback(be_silent); /* stderr is the program's; what matters comes back as a status */
    av_max_alloc(MAX_ALLOC_BYTES);
}

void sac_libav_set_up(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up_once);
}

sac_status sac_libav_no_memory(sac_error *err) {
    void *p = malloc(MAX_ALLOC_BYTES); /* untouched, so it costs nothing */
    free(p);
    if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for decoding video");
    return sac_fail(err, SAC_BAD_FILE, "asks for more than %zu MiB of memory at once: the file is damaged",
                    MAX_ALLOC_BYTES >> 20);
}
/* ---- bytes ---- */

/* Not mapped: the pages of a long file would count as ours, and a file cut while in use would kill us. */
static int64_t read_file(const sac_byte_source *s, uint8_t *buf, int64_t n) {
    ssize_t got;
    do got = pread(s->fd, buf, (size_t)n, s->position);
    while (got < 0 && errno == EINTR);
    return got < 0 ? AVERROR(errno) : got == 0 ? AVERROR_EOF : got;
}

static int source_read(void *opaque, uint8_t *buf, int buf_bytes) {
    sac_byte_source *s = opaque;
    int64_t n = s->n_bytes - s->position;
    if (n > buf_bytes) n = buf_bytes;
    if (n <= 0) return AVERROR_EOF;
    if (s->fd < 0)
        memcpy(buf, s->bytes + s->position, (size_t)n);
    else
        n = read_file(s, buf, n);
    if (n > 0) s->position += n;
    return (int)n;
}

static int64_t source_seek(void *opaque, int64_t offset, int whence) {
    sac_byte_source *s = opaque;
    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE) return s->n_bytes;
    int64_t to, base = whence == SEEK_CUR ? s->position : whence == SEEK_END ? s->n_bytes : 0;
    if (__builtin_add_overflow(base, offset, &to) || to < 0) return AVERROR(EINVAL);
    return s->position = to;
}

/* Containers may name other files and addresses; none is opened. */
static int refuse_open(AVFormatContext *s, AVIOContext **pb, const char *url, int flags,
                       AVDictionary **options) {
    (void)s, (void)url, (void)flags, (void)options;
    *pb = NULL;
    return AVERROR(EACCES);
}

/* ---- container ---- */

static void free_io(AVIOContext *io) {
    if (io) av_freep(&io->buffer);
    avio_context_free(&io);
}

static AVIOContext *new_io(sac_byte_source *source) {
    uint8_t *buffer = av_malloc(IO_BUFFER_BYTES);
    AVIOContext *io = NULL;
    if (buffer) io = avio_alloc_context(buffer, IO_BUFFER_BYTES, 0, source, source_read, NULL, source_seek);
    if (!io) av_free(buffer);
    return io;
}

static AVFormatContext *new_container(sac_byte_source *source) {
    AVIOContext *io = new_io(source);
    AVFormatContext *c = avformat_alloc_context();
    if (c) {
        c->format_whitelist = av_strdup(allowed_containers);
        c->codec_whitelist = av_strdup(allowed_decoders);
        c->protocol_whitelist = av_strdup("none");
    }
    if (!io || !c || !c->format_whitelist || !c->codec_whitelist || !c->protocol_whitelist) {
        avformat_free_context(c);
        free_io(io);
        return NULL;
    }
    c->pb = io;
    c->io_open = refuse_open;
    c->max_streams = MAX_STREAMS;
    c->flags |= AVFMT_FLAG_GENPTS; /* as PyAV: AVI stores no presentation times */
    return c;
}

void sac_libav_container_close(AVFormatContext **container) {
    AVIOContext *io = *container ? (*container)->pb : NULL;
    avformat_close_input(container);
    free_io(io);
}

int64_t sac_libav_padded_limit(int64_t max_pixels) {
    return max_pixels < INT64_MAX / 4 ? 2 * max_pixels + (1 << 18) : INT64_MAX;
}

/* What is decoded while probing obeys the limit on pixels, too. */
static int probe_streams(AVFormatContext *c, int64_t max_pixels) {
    unsigned n = c->nb_streams;
    AVDictionary **options = av_calloc(n ? n : 1, sizeof *options);
    if (!options) return AVERROR(ENOMEM);
    for (unsigned i = 0; i < n; i++)
        av_dict_set_int(&options[i], "max_pixels", sac_libav_padded_limit(max_pixels), 0);
    int r = avformat_find_stream_info(c, options);
    for (unsigned i = 0; i < n; i++) av_dict_free(&options[i]);
    av_free(options);
    return r;
}

static sac_status pick_stream(const AVFormatContext *c, int *stream, sac_error *err) {
    *stream = -1;
    for (unsigned i = 0; i < c->nb_streams; i++) {
        AVStream *s = c->streams[i];
        bool is_video = s->codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
        if (s->disposition & AV_DISPOSITION_ATTACHED_PIC) is_video = false;
        if (*stream < 0 && is_video)
            *stream = (int)i;
        else
            s->discard = AVDISCARD_ALL;
    }
    if (*stream >= 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "holds no video (%u other streams)", c->nb_streams);
}

sac_status sac_libav_container_open(AVFormatContext **out, int *stream, sac_byte_source *source,
                                    int64_t max_pixels, sac_error *err) {
    *out = NULL;
    source->position = 0;
    AVFormatContext *c = new_container(source);
    if (!c) return sac_libav_no_memory(err);
    AVIOContext *io = c->pb;
    int r = avformat_open_input(&c, NULL, NULL, NULL);
    if (r < 0) { /* c is gone, io is not */
        free_io(io);
        if (r == AVERROR(ENOMEM)) return sac_libav_no_memory(err);
        return sac_fail(
            err, SAC_BAD_FILE,
            "not a video that can be read: give a whole MP4, MOV, Matroska, WebM, AVI, MPEG, FLV, "
            "Ogg, ASF or GIF file");
    }
    *out = c;
    r = probe_streams(c, max_pixels);
    if (r == AVERROR(ENOMEM)) return sac_libav_no_memory(err);
    if (r < 0) return sac_fail(err, SAC_BAD_FILE, "the video's streams cannot be read: the file is damaged");
    return pick_stream(c, stream, err);
}

#else
typedef int sac_libav_container_is_absent;
#endif
