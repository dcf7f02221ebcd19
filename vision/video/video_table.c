/* video_table.c - see video_table.h. An index that a file carries would not do: MP4's holds decoding times, Matroska's only some key
 * frames, and others have none. */
#ifdef SAC_VIDEO

#include "video_table.h"

#include <inttypes.h>

#define HEAD_FRAMES 8 /* decoded when a file is opened, to see whether packets are frames */

typedef struct builder {
    sac_video_table *t;
    sac_libav_input *input;
    const sac_video_limits *limits;
} builder;

sac_status sac_video_nothing_decodes(sac_error *err) {
    return sac_fail(err, SAC_BAD_FILE, "no frame of the video can be decoded: the file is damaged or empty");
}

typedef struct scan {
    int64_t n_packets, n_bytes;
    int64_t first_pts, last_pts; /* smallest and largest */
    bool lacks_times;
    bool starts_without_key;
    bool ends_damaged; /* the last packet is not whole */
} scan;

static sac_status check_scan(const builder *b, const scan *s, sac_error *err) {
    if (s->n_bytes / 2 > sac_libav_input_bytes(b->input) + 65536)
        return sac_fail(err, SAC_BAD_FILE, "its packets overlap: they add up to more than twice the file");
    if (s->n_packets / 16 > b->limits->max_frames + 4096)
        return sac_fail(err, SAC_BAD_FILE,
                        "%" PRId64 " packets: too many for the limit of %" PRId64 " frames", s->n_packets,
                        b->limits->max_frames);
    if (b->t->table.n_frames > b->limits->max_frames || b->t->table.n_keys > b->limits->max_frames)
        return sac_fail(err, SAC_BAD_FILE, "more than the limit of %" PRId64 " frames", b->limits->max_frames);
    if (sac_libav_input_seconds(b->input, s->last_pts - s->first_pts) > b->limits->max_duration_s)
        return sac_fail(err, SAC_BAD_FILE, "longer than the limit of %g seconds", b->limits->max_duration_s);
    return SAC_OK;
}

static sac_status add_packet(builder *b, scan *s, const sac_packet_head *p, sac_error *err) {
    s->n_packets++;
    s->n_bytes += p->n_bytes;
    if (!p->is_ours) return SAC_OK;
    s->ends_damaged = !p->is_whole;
    s->lacks_times |= !p->has_time;
    if (p->is_key) SAC_TRY(sac_frame_table_add_key(&b->t->table, p->pts, p->seek_ts, err));
    s->starts_without_key |= b->t->table.n_keys == 0;
    if (!p->is_shown) return SAC_OK;
    if (b->t->table.n_frames == 0) s->first_pts = s->last_pts = p->pts;
    if (p->pts < s->first_pts) s->first_pts = p->pts;
    if (p->pts > s->last_pts) s->last_pts = p->pts;
    return sac_frame_table_add(&b->t->table, p->pts, err);
}

static sac_status scan_container(builder *b, scan *s, sac_error *err) {
    for (;;) {
        sac_packet_head packet;
        sac_step step = sac_libav_input_scan(b->input, &packet);
        if (step == SAC_STEP_NO_MEMORY) return sac_libav_no_memory(err);
        if (step != SAC_STEP_DONE) return SAC_OK;
        SAC_TRY(add_packet(b, s, &packet, err));
        SAC_TRY(check_scan(b, s, err));
    }
}

typedef struct shown_frames {
    sac_frame_table table;
    bool ordered; /* every frame had a time, and they ascended */
    bool ended;
} shown_frames;

/* Decodes up to max_frames from where the input stands and lists their times. */
static sac_status list_shown(builder *b, shown_frames *s, int64_t max_frames, sac_error *err) {
    s->ordered = true;
    while (s->table.n_frames < max_frames) {
        sac_step step = sac_libav_input_decode(b->input);
        if (step == SAC_STEP_NO_MEMORY) return sac_libav_no_memory(err);
        if (step != SAC_STEP_DONE) {
            s->ordered &= step != SAC_STEP_LOST;
            s->ended = true;
            return SAC_OK;
        }
        int64_t pts, n = s->table.n_frames;
        bool has_time;
        sac_libav_input_newest(b->input, &pts, &has_time);
        s->ordered &= has_time && (n == 0 || pts > s->table.pts[n - 1]);
        SAC_TRY(sac_frame_table_add(&s->table, pts, err));
    }
    return SAC_OK;
}

/* Decodes the first frames, or all from the last key frame on, and takes out of the table what does not
 * appear. *agrees is false when something appears that is not in the table. */
static sac_status compare_span(builder *b, bool at_end, bool *agrees, sac_error *err) {
    const sac_key_frame *key = &b->t->table.keys[at_end ? b->t->table.n_keys - 1 : 0];
    int64_t from = at_end ? key->pts : INT64_MIN, to = INT64_MAX;
    *agrees = sac_libav_input_jump(b->input, key->pts, key->seek_ts);
    if (!*agrees) return SAC_OK;
    shown_frames shown = {0};
    sac_status st = list_shown(b, &shown, at_end ? INT64_MAX : HEAD_FRAMES, err);
    if (!shown.ended && shown.table.n_frames > 0) to = shown.table.pts[shown.table.n_frames - 1] + 1;
    *agrees = st == SAC_OK && shown.ordered &&
              sac_frame_table_keep(&b->t->table, from, to, shown.table.pts, shown.table.n_frames);
    sac_frame_table_free(&shown.table);
    return st;
}

/* The table from what is decoded. Without times of its own, or with ones that go back, frames can only be
 * counted. */
static sac_status count_by_decoding(builder *b, bool lacks_times, sac_error *err) {
    shown_frames shown = {0};
    b->t->was_decoded = true;
    SAC_TRY(sac_libav_input_restart(b->input, err));
    sac_status st = list_shown(b, &shown, b->limits->max_frames + 1, err);
    if (st == SAC_OK && shown.table.n_frames > b->limits->max_frames)
        st = sac_fail(err, SAC_BAD_FILE, "more than the limit of %" PRId64 " frames", b->limits->max_frames);
    if (st != SAC_OK) {
        sac_frame_table_free(&shown.table);
        return st;
    }
    b->t->by_count = lacks_times || !shown.ordered || b->t->table.n_keys == 0;
    b->t->has_times = shown.ordered;
    sac_frame_table_take_keys(&shown.table, &b->t->table);
    sac_frame_table_free(&b->t->table);
    b->t->table = shown.table;
    return SAC_OK;
}

sac_status sac_video_table_build(sac_video_table *t, sac_libav_input *input, const sac_video_limits *limits, sac_error *err) {
    builder own = {t, input, limits}, *b = &own;
    scan s = {0};
    SAC_TRY(scan_container(b, &s, err));
    bool cut = s.ends_damaged || sac_libav_input_is_cut(b->input);
    bool agrees =
        sac_frame_table_finish(&b->t->table) && !s.lacks_times && !s.starts_without_key && b->t->table.n_keys > 0;
    b->t->has_times = true;
    if (agrees) SAC_TRY(compare_span(b, false, &agrees, err));
    if (agrees && cut) SAC_TRY(compare_span(b, true, &agrees, err));
    if (!agrees) SAC_TRY(count_by_decoding(b, s.lacks_times, err));
    return b->t->table.n_frames > 0 ? SAC_OK : sac_video_nothing_decodes(err);
}

#else
typedef int sac_video_is_absent; /* see video_absent.c */
#endif
