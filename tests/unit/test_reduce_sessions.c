/* Reducers of videos in whole sessions, over models of every kind of prompt: rows that stay are those of the whole video, bit for
 * bit, at the positions that they have in it; prefixes are used again. */
#include "engine.h"
#include "media.h"
#include "reduce_test.h"

#define FOLDER "tests/golden/models/"

enum { CTX = 4000, MOST_LOGITS = 2048, N_FRAMES = 5, AXES = SAC_POSITION_AXES };

typedef struct seen {
    float logits[MOST_LOGITS];
    int64_t n_prompt, n_visual, n_reused;
    bool from_cache;
} seen;

static sac_model *open_model(const char *path) {
    sac_model_options o;
    sac_model *m;
    sac_error err;
    sac_model_options_default(&o);
    if (strcmp(path, "models/demo") != 0) o.chat_format = "plain";
    assert_ok(sac_model_open(&m, path, &o, &err), err);
    return m;
}

static sac_session *session(const sac_model *m, const char *reduce) {
    sac_session_config c;
    sac_session *s;
    sac_error err;
    sac_session_config_default(&c);
    c.n_ctx = CTX;
    c.prefill_chunk = 64;
    c.kv = "f32";
    c.reduce = reduce;
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    return s;
}

/* A video of n frames, a list of frames, or both with a picture between them. */
typedef enum shows { A_VIDEO, A_LIST, A_MIX } shows;

static void look(sac_session *s, shows what, int n_frames, const char *question, seen *t) {
    static char paths[N_FRAMES][80];
    sac_frame frames[N_FRAMES];
    sac_part parts[4] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"}};
    size_t n = 0;
    sac_sampling o;
    sac_result r;
    sac_error err;
    for (int i = 0; i < N_FRAMES; i++) {
        snprintf(paths[i], sizeof paths[i], FOLDER "frame%d.png", i);
        frames[i] = (sac_frame){.path = paths[i], .time_s = i / 2.0};
    }
    parts[0].video.num_frames = n_frames;
    n += what != A_LIST;
    if (what == A_MIX) parts[n++] = (sac_part){.kind = SAC_PART_IMAGE, .path = FOLDER "tall.png"};
    if (what != A_VIDEO)
        parts[n++] = (sac_part){.kind = SAC_PART_FRAMES, .frames = frames, .n_frames = N_FRAMES};
    parts[n++] = (sac_part){.kind = SAC_PART_TEXT, .text = question};
    sac_message message = {"user", parts, n, NULL};
    sac_sampling_default(&o);
    o.max_tokens = 1;
    o.ignore_eos = true;
    assert_ok(sac_session_generate(s, &message, 1, &o, NULL, &r, &err), err);
    sac_model_info info;
    sac_model_get_info(s->model, &info);
    assert_true(info.vocab <= MOST_LOGITS);
    memset(t, 0, sizeof *t);
    memcpy(t->logits, sac_session_logits(s), (size_t)info.vocab * sizeof *t->logits);
    t->n_prompt = r.n_prompt_tokens;
    t->n_visual = r.n_visual_tokens;
    t->n_reused = r.n_reused_tokens;
    t->from_cache = r.media[0].from_cache;
    int64_t n_reported = 0;
    for (size_t i = 0; i < r.n_media; i++) n_reported += r.media[i].n_tokens;
    assert_int_equal(n_reported, t->n_visual);
}

/* Rows of an item as the model's cache has them: the decoder's, then what is added to them later. */
static const sac_vision_entry *rows_of(const sac_session *s, const sac_media *m) {
    const int64_t width = s->decoder.shape.hidden * (1 + s->decoder.n_deep);
    const sac_vision_entry *e = sac_vision_cache_find(s->model->vision_cache, &m->key,
                                                      (size_t)(m->report.n_tokens * width) * sizeof(float));
    assert_non_null(e);
    return e;
}

/* Row i is `want`, and what is added to it later that of row k of the whole. */
static void expect_row(const sac_session *s, const sac_media *m, const sac_vision_entry *e, int64_t i,
                       const float *want, const sac_media *whole, const sac_vision_entry *f, int64_t k) {
    const int64_t cols = s->decoder.shape.hidden, deep = cols * s->decoder.n_deep;
    const float *a = e->rows, *b = f->rows;
    assert_memory_equal(a + i * cols, want, (size_t)cols * sizeof *a);
    a += m->report.n_tokens * cols, b += whole->report.n_tokens * cols;
    assert_memory_equal(a + i * deep, b + k * deep, (size_t)deep * sizeof *a);
}

/* Token of the whole item that a cell is: newlines stand between cells, a class token before each tile's. */
static int64_t token_of(const sac_media *whole, int64_t cell) {
    const sac_visual_plan *p = &whole->plan;
    const int64_t each = sac_grid_cells(p->tokens),
                  n_class = p->tokens_per_tile - each - sac_visual_newlines(p);
    const int64_t tile = cell / each, inside = cell % each;
    const int64_t newlines = p->newlines == SAC_NEWLINES_ROWS ? inside / p->tokens.w : 0;
    return tile * p->tokens_per_tile + n_class + inside + newlines;
}

static int32_t number_of(const sac_session *s, int64_t n, int axis, int64_t row) {
    return s->positions[axis * n + row];
}

/* Where they stand in their frames is told. */
static void expect_places(sac_session *s) {
    static sac_token_place places[CTX];
    const int64_t n = sac_session_token_places(s, places, CTX);
    for (size_t i = 0; i < s->n_media; i++) {
        const sac_media *m = &s->media[i];
        const sac_grid g = m->plan.tokens;
        int64_t k = 0;
        for (int64_t row = 0; row < n && m->n_kept; row++) {
            if (places[row].media != (int32_t)i) continue;
            const sac_token_place *p = &places[row];
            const sac_grid own = m->plan.crops.n ? sac_visual_crop_tokens(&m->plan, p->tile % m->plan.crops.n) : g;
            const int64_t before = m->plan.crops.n ? sac_media_block_first(m, p->tile) : p->tile * (int64_t)g.h * g.w,
                          cell = before + (int64_t)p->row * own.w + p->column;
            assert_true(k < m->n_kept && p->rows == own.h && p->columns == own.w);
            assert_int_equal(cell, m->kept[k++]);
        }
        assert_int_equal(k, m->n_kept);
    }
}

/* Every row that stays is the whole video's; where a family numbers grids, with the number that it has there. */
static void expect_parts_of(const sac_session *s, const seen *a, const sac_session *dense, const seen *b,
                            const char *reduce) {
    const bool by_grid = s->model->loaded.positions != sac_positions_plain;
    for (size_t i = 0; i < s->n_media; i++) {
        const sac_media *m = &s->media[i], *whole = &dense->media[i];
        if (!m->n_kept) continue;
        const sac_vision_entry *e = rows_of(s, m), *f = rows_of(dense, whole);
        const sac_reduce_video v = {m->report.n_tiles, sac_grid_cells(m->plan.tokens),
                                    s->decoder.shape.hidden};
        float *x = malloc((size_t)(m->n_cells * v.cols) * sizeof *x);
        int32_t *want = malloc((size_t)m->n_cells * sizeof *want);
        for (int64_t c = 0; c < m->n_cells; c++)
            memcpy(x + c * v.cols, (const float *)f->rows + token_of(whole, c) * v.cols,
                   (size_t)v.cols * sizeof *x);
        const sac_reduce r = reducer(reduce);
        assert_int_equal(choose(&r, &v, x, want), m->n_kept);
        assert_memory_equal(want, m->kept, (size_t)m->n_kept * sizeof *want);
        for (int64_t k = 0, b_at = 0; k < m->n_kept; k++) {
            const int64_t token = token_of(whole, m->kept[k]);
            expect_row(s, m, e, k, x + m->kept[k] * v.cols, whole, f, token);
            while (k >= (m->spans[b_at].cells - m->kept) + m->spans[b_at].n) b_at++;
            const int64_t row = m->spans[b_at].first + k - (m->spans[b_at].cells - m->kept);
            int64_t block = 0;
            while (token >= sac_media_block_first(whole, block + 1)) block++;
            assert_int_equal(b_at, m->plan.crops.n ? block : m->kept[k] / (m->n_cells / m->n_blocks));
            const int64_t there = whole->spans[block].first + token - sac_media_block_first(whole, block);
            for (int axis = 0; axis < AXES; axis++)
                assert_int_equal(number_of(s, a->n_prompt, axis, row),
                                 by_grid ? number_of(dense, b->n_prompt, axis, there) : row);
        }
        if (s->model->loaded.video_newline)
            expect_row(s, m, e, m->n_kept, (const float *)f->rows + (whole->report.n_tokens - 1) * v.cols,
                       whole, f, whole->report.n_tokens - 1);
        sac_vision_cache_release(s->model->vision_cache, (sac_vision_entry *)(uintptr_t)e);
        sac_vision_cache_release(s->model->vision_cache, (sac_vision_entry *)(uintptr_t)f);
        free(x), free(want);
    }
    assert_int_equal(a->n_prompt - a->n_visual, b->n_prompt - b->n_visual); /* the texts are the same */
    assert_int_equal(s->next_position, by_grid ? dense->next_position : a->n_prompt);
}

static const char *const folders[] = {"models/demo",
                                      FOLDER "longva",
                                      FOLDER "llava_onevision",
                                      FOLDER "llava_video",
                                      FOLDER "llava_video_frame",
                                      FOLDER "llava_next_video",
                                      FOLDER "llava_full",
                                      FOLDER "qwen2_vl",
                                      FOLDER "qwen2_5_vl",
                                      FOLDER "qwen3_vl",
                                      FOLDER "qwen3_vl_moe",
                                      FOLDER "qwen3_5",
                                      FOLDER "internvl",
                                      FOLDER "internvl_chat",
                                      FOLDER "smolvlm",
                                      FOLDER "idefics3",
                                      FOLDER "gemma3",
                                      FOLDER "glm4v",
                                      FOLDER "glm46v",
                                      FOLDER "pixtral",
                                      FOLDER "mistral3",
                                      FOLDER "kimi_vl",
                                      FOLDER "minicpmv4_6"};
static const char *const lines[] = {"evs:prune=0.5",
                                    "evs:prune=0.75",
                                    "vidcom2:rate=0.5,temperature=0.01",
                                    "vidcom2:rate=0.25,temperature=0.01",
                                    "flashvid:rate=0.2",
                                    "uniform:rate=0.3"};

/* Of a model: what it makes of a video, a list and both, whole and reduced. */
static void try_model(const char *folder, shows what) {
    static seen whole, part, again, other, fresh;
    sac_model *m = open_model(folder);
    sac_session *dense = session(m, NULL);
    look(dense, what, N_FRAMES, "What happens?", &whole);
    sac_session *off = session(m, "evs:prune=0");
    look(off, what, N_FRAMES, "What happens?", &part);
    assert_memory_equal(whole.logits, part.logits, sizeof whole.logits);
    sac_session_free(off);
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        sac_session *s = session(m, lines[i]);
        look(s, what, N_FRAMES, "What happens?", &part);
        assert_true(part.n_visual < whole.n_visual && !part.from_cache);
        expect_parts_of(s, &part, dense, &whole, lines[i]);
        expect_places(s);
        assert_true(memcmp(part.logits, whole.logits, sizeof whole.logits) != 0);
        look(s, what, N_FRAMES, "Is it an owl?", &other); /* the video's rows are used again */
        assert_true(other.n_reused >= s->media[s->n_media - 1].spans[0].first ||
                    m->loaded.decoder.config.linear.n_key_heads);
        sac_session_free(s);
        s = session(m, lines[i]); /* what stays is known, and its rows are in the cache */
        look(s, what, N_FRAMES, "What happens?", &again);
        assert_memory_equal(part.logits, again.logits, sizeof part.logits);
        assert_true(again.from_cache && again.n_reused == 0);
        sac_memo_free(m->memo); /* it is not known any more, the rows are */
        sac_memo_init(m->memo);
        sac_session_free(s);
        s = session(m, lines[i]);
        look(s, what, N_FRAMES, "Is it an owl?", &fresh);
        assert_memory_equal(other.logits, fresh.logits, sizeof other.logits);
        sac_session_free(s);
    }
    sac_session_free(dense);
    sac_model_free(m);
}

static void every_family_keeps_rows_of_the_whole(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(folders); i++) {
        print_message("%s\n", folders[i]);
        try_model(folders[i], A_LIST);
    }
}

static void videos_and_pictures_mixed(void **state) {
    (void)state;
    static const char *const some[] = {"models/demo",     FOLDER "llava_onevision", FOLDER "qwen2_5_vl",
                                       FOLDER "qwen3_vl", FOLDER "internvl",        FOLDER "smolvlm"};
    for (size_t i = 0; i < SAC_COUNT(some); i++) try_model(some[i], A_MIX);
}

/* A video file; one of one frame; more frames than it has. */
static void videos_of_any_length(void **state) {
    (void)state;
    static seen whole, part;
    sac_model *m = open_model("models/demo");
    static const int n_frames[] = {1, 2, 16, 100};
    for (size_t i = 0; i < SAC_COUNT(n_frames); i++) {
        sac_session *dense = session(m, NULL), *evs = session(m, "evs:prune=0.9"),
                    *two = session(m, "vidcom2:rate=0.1");
        const int n = n_frames[i] < 16 ? n_frames[i] : 16;
        look(dense, A_VIDEO, n_frames[i], "What happens?", &whole);
        look(evs, A_VIDEO, n_frames[i], "What happens?", &part);
        assert_int_equal(whole.n_visual, 64 * n);
        assert_int_equal(part.n_visual, n == 16 ? 102 : 64);
        if (n == 1) assert_memory_equal(whole.logits, part.logits, sizeof part.logits);
        if (n > 1) expect_parts_of(evs, &part, dense, &whole, "evs:prune=0.9");
        look(two, A_VIDEO, n_frames[i], "What happens?", &part);
        assert_int_equal(part.n_visual, n == 16 ? 102 : n == 2 ? 13 : 6);
        expect_parts_of(two, &part, dense, &whole, "vidcom2:rate=0.1");
        sac_session_free(dense), sac_session_free(evs), sac_session_free(two);
    }
    sac_model_free(m);
}

/* A frame that lost all its tokens keeps its place among the texts. */
static void frames_without_tokens(void **state) {
    (void)state;
    static seen t;
    sac_model *m = open_model(FOLDER "qwen3_vl");
    sac_session *s = session(m, "evs:prune=0.999");
    look(s, A_LIST, 0, "What happens?", &t);
    const sac_media *v = &s->media[0];
    assert_true(v->n_blocks > 1 && v->spans[0].n == v->n_kept);
    for (int64_t b = 1; b < v->n_blocks; b++)
        assert_true(v->spans[b].n == 0 && v->spans[b].first > v->spans[b - 1].first);
    sac_session_free(s);
    sac_model_free(m);
}

/* Sessions that share beginnings: rows of one's video serve another's question, and a reducer's never another's. */
static void beginnings_are_shared(void **state) {
    (void)state;
    static seen first, alone, shared, other;
    sac_model *m = open_model(FOLDER "qwen2_5_vl");
    sac_error err;
    sac_beginnings *b;
    sac_session *s = session(m, "vidcom2:rate=0.5"), *t = session(m, "vidcom2:rate=0.5"),
                *u = session(m, "uniform:rate=0.5");
    look(t, A_LIST, 0, "Is it an owl?", &alone);
    sac_session_free(t);
    t = session(m, "vidcom2:rate=0.5");
    assert_ok(sac_beginnings_open(&b, m, &err), err);
    sac_session *all[] = {s, t, u};
    for (int i = 0; i < 3; i++) assert_ok(sac_session_join(all[i], b, &err), err);
    look(s, A_LIST, 0, "What happens?", &first);
    look(t, A_LIST, 0, "Is it an owl?", &shared);
    assert_true(shared.n_reused >= s->media[0].n_kept);
    assert_memory_equal(alone.logits, shared.logits, sizeof alone.logits);
    look(u, A_LIST, 0, "Is it an owl?", &other);
    assert_int_equal(other.n_reused, 0);
    for (int i = 0; i < 3; i++) sac_session_free(all[i]);
    sac_beginnings_close(b);
    sac_model_free(m);
}

/* What one reducer left of a video is not taken for what another with the same numbers leaves. */
static void equal_numbers_are_not_equal_reducers(void **state) {
    (void)state;
    static seen first, second, alone;
    sac_model *m = open_model("models/demo"), *other = open_model("models/demo");
    sac_session *s = session(m, "evs:prune=0.5"), *t = session(m, "uniform:rate=0.5"),
                *u = session(other, "uniform:rate=0.5");
    look(s, A_VIDEO, 4, "What happens?", &first);
    look(t, A_VIDEO, 4, "What happens?", &second);
    look(u, A_VIDEO, 4, "What happens?", &alone);
    assert_memory_equal(s->reduce.p, t->reduce.p, sizeof s->reduce.p);
    assert_true(first.n_visual == second.n_visual && !second.from_cache);
    assert_memory_equal(second.logits, alone.logits, sizeof alone.logits);
    sac_session_free(s), sac_session_free(t), sac_session_free(u);
    sac_model_free(m), sac_model_free(other);
}

/* Which rows stay is remembered where the rows are not: they are made again, and merged ones merged again. */
static void rows_that_nobody_keeps(void **state) {
    (void)state;
    static seen kept, again;
    static const char *const some[] = {"models/demo", FOLDER "qwen3_vl"};
    for (size_t k = 0; k < 2 * SAC_COUNT(lines); k++) {
        sac_model_options o;
        sac_error err;
        sac_model *m;
        sac_model_options_default(&o);
        o.vision_cache_bytes = 0;
        if (k % 2) o.chat_format = "plain";
        assert_ok(sac_model_open(&m, some[k % 2], &o, &err), err);
        for (int run = 0; run < 2; run++) {
            sac_session *s = session(m, lines[k / 2]);
            look(s, A_LIST, 0, "What happens?", run ? &again : &kept);
            assert_true(!(run ? again : kept).from_cache && (run ? again : kept).n_reused == 0);
            sac_session_free(s);
        }
        assert_memory_equal(kept.logits, again.logits, sizeof kept.logits);
        sac_model_free(m);
    }
}

/* More frames go into the same room, and as many tokens as are counted. */
static void more_frames_have_room(void **state) {
    (void)state;
    sac_model *m = open_model("models/demo");
    sac_part parts[] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0002_256.mp4"},
                        {.kind = SAC_PART_TEXT, .text = "What?"}};
    sac_message message = {"user", parts, 2, NULL};
    sac_error err;
    int64_t frames[2];
    for (int i = 0; i < 2; i++) {
        const char *line = i ? "evs:prune=0.75" : NULL;
        sac_room room;
        sac_session *s = session(m, line);
        size_t n = 0;
        assert_ok(sac_room_open(&room, m, CTX, line, &message, 1, &err), err);
        frames[i] = sac_room_frames(&room);
        assert_ok(sac_session_prompt(s, &message, 1, NULL, 0, &n, &err), err);
        assert_int_equal(s->media[0].report.n_frames, frames[i] < 256 ? frames[i] : 256);
        assert_true((int64_t)n < CTX && (int64_t)n > CTX - 700);
        int64_t n_prompt, n_reusable;
        assert_ok(sac_session_n_reusable(s, &message, 1, &n_prompt, &n_reusable, &err), err);
        assert_true(n_prompt == (int64_t)n && n_reusable == 0);
        sac_session_free(s);
    }
    assert_true(frames[1] > 3 * frames[0] && frames[1] < 5 * frames[0]);
    sac_model_free(m);
}

typedef struct patience {
    int asked, most;
} patience;

static bool has_run_out(void *ctx) {
    patience *p = ctx;
    return p->asked++ == p->most;
}

/* Runs the question until it has been asked `most` times whether to go on; how often it was. */
static int ask_until(sac_session *s, int most, sac_status expected) {
    sac_part parts[] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"},
                        {.kind = SAC_PART_TEXT, .text = "What happens?"}};
    parts[0].video.num_frames = 4;
    const sac_message message = {"user", parts, 2, NULL};
    patience p = {0, most};
    const sac_events e = {.ctx = &p, .stopped = has_run_out};
    sac_sampling o;
    sac_result r;
    sac_error err;
    sac_sampling_default(&o);
    o.max_tokens = 1;
    assert_int_equal(sac_session_generate(s, &message, 1, &o, &e, &r, &err), expected);
    return p.asked;
}

/* Where a reducer has much to choose among it may be called off at every frame, and the session goes on. */
static void a_choice_is_called_off(void **state) {
    (void)state;
    static seen want, got;
    static const char *const reducers[] = {"uniform:rate=0.25", "flashvid:rate=0.2"};
    sac_model_options o;
    sac_error err;
    sac_model *m;
    int n_asked[2] = {0};
    sac_model_options_default(&o);
    o.vision_cache_bytes = 0;
    assert_ok(sac_model_open(&m, "models/demo", &o, &err), err);
    for (int i = 0; i < 4; i++) { /* the first time the file is read once more */
        sac_session *s = session(m, reducers[i % 2]);
        n_asked[i % 2] = ask_until(s, -1, SAC_OK);
        if (i == 3) look(s, A_VIDEO, 4, "What happens?", &want);
        sac_session_free(s);
    }
    assert_int_equal(n_asked[1], n_asked[0] + 3 * 4); /* three stages of four frames */
    sac_session *s = session(m, reducers[1]);
    for (int most = 0; most < n_asked[1]; most++) {
        assert_int_equal(ask_until(s, most, SAC_CANCELLED), most + 1);
        sac_session_reset(s);
    }
    look(s, A_VIDEO, 4, "What happens?", &got);
    assert_memory_equal(got.logits, want.logits, sizeof want.logits);
    sac_session_free(s);
    sac_model_free(m);
}

static void refused_where_nothing_is_seen(void **state) {
    (void)state;
    sac_model *m = open_model(FOLDER "llama_f32");
    sac_session_config c;
    sac_session *s;
    sac_error err;
    sac_session_config_default(&c);
    c.reduce = "evs";
    assert_int_equal(sac_session_create(&s, m, &c, &err), SAC_UNSUPPORTED);
    assert_true(strstr(err.text, "reads text only") != NULL);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_keeps_rows_of_the_whole),
        cmocka_unit_test(videos_and_pictures_mixed),
        cmocka_unit_test(videos_of_any_length),
        cmocka_unit_test(frames_without_tokens),
        cmocka_unit_test(beginnings_are_shared),
        cmocka_unit_test(equal_numbers_are_not_equal_reducers),
        cmocka_unit_test(rows_that_nobody_keeps),
        cmocka_unit_test(more_frames_have_room),
        cmocka_unit_test(a_choice_is_called_off),
        cmocka_unit_test(refused_where_nothing_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
