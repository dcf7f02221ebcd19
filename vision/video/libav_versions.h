/* libav_versions.h - what FFmpeg 7 calls otherwise than FFmpeg 5 and 6 do. */
#ifndef SAC_LIBAV_VERSIONS_H
#define SAC_LIBAV_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/pixdesc.h>

#define SAC_LIBAV_IS_7 (LIBAVCODEC_VERSION_MAJOR >= 61)

/* Where the samples of chroma lie, in 256ths of a pixel; left as they are where the location is none. */
static inline void sac_libav_chroma_place(int *x, int *y, enum AVChromaLocation location) {
#if SAC_LIBAV_IS_7
    av_chroma_location_enum_to_pos(x, y, location);
#else
    avcodec_enum_to_chroma_pos(x, y, location);
#endif
}

/* The stream's display matrix, its own, and how long it is; NULL: it has none. */
static inline const uint8_t *sac_libav_display_matrix(const AVStream *s, size_t *n_bytes) {
#if SAC_LIBAV_IS_7
    const AVPacketSideData *stored = av_packet_side_data_get(
        s->codecpar->coded_side_data, s->codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    *n_bytes = stored ? stored->size : 0;
    return stored ? stored->data : NULL;
#else
    return av_stream_get_side_data(s, AV_PKT_DATA_DISPLAYMATRIX, n_bytes);
#endif
}

static inline bool sac_libav_is_interlaced(const AVFrame *f) {
#if SAC_LIBAV_IS_7
    return f->flags & AV_FRAME_FLAG_INTERLACED;
#else
    return f->interlaced_frame;
#endif
}

#endif
