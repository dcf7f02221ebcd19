#define _GNU_SOURCE
#include "model.h"
#include "out_file.h"
#include "quantize.h"
#include "scheme.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DEMO "models/demo"

static char folder[] = "/tmp/test_quantize.XXXXXX";

/* The disk of these tests: it stands in for the library's. */
static uint64_t bytes_free = (uint64_t)1 << 40;

int statvfs(const char *path, struct statvfs *fs) {
    struct stat st;
    *fs = (struct statvfs){.f_bsize = 1, .f_frsize = 1, .f_bavail = bytes_free, .f_bfree = bytes_free};
    return stat(path, &st);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    return system(line);
}

static const char *at(const char *name) {
    static char paths[16][300];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void shell(const char *format, const char *a, const char *b) {
    char line[900];
    snprintf(line, sizeof line, format, a, b);
    assert_int_equal(system(line), 0);
}

/* What was planned, and at which byte a run gives up as if it were killed. */
typedef struct watch {
    sac_quantize_plan plan;
    int n_planned;
} watch;

static void planned(void *ctx, const sac_quantize_plan *plan) {
    watch *w = ctx;
    w->plan = *plan;
    w->n_planned++;
}

static sac_status quantize(const char *in, const char *out, const char *format, watch *w, sac_error *err) {
    const sac_quantize_options o = {.format = format, .n_threads = 2, .planned = planned, .ctx = w};
    *w = (watch){0};
    return sac_quantize(in, out, &o, err);
}

/* By another program than this one. */
static sac_status quantize_by(const char *program, const char *out, const char *format, watch *w, sac_error *err) {
    const sac_quantize_options o = {.format = format, .program = program, .n_threads = 2, .planned = planned, .ctx = w};
    *w = (watch){0};
    return sac_quantize(DEMO, out, &o, err);
}

static void open_model(sac_loaded_model *m, const char *path, const char *weights) {
    sac_error err;
    const sac_load_options o = {.tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .weights = weights};
    assert_ok(sac_loaded_model_open_with(m, path, &o, &err), err);
}

static void same_part(const sac_tensor *a, const sac_tensor *b, const char *what, int layer) {
    if (!a->data != !b->data || (a->data && (a->dtype != b->dtype || sac_weight_part_bytes(a) != sac_weight_part_bytes(b) ||
                                             memcmp(a->data, b->data, sac_weight_part_bytes(a)))))
        fail_msg("%s of layer %d differs", what, layer);
}

static void same_weight(const sac_weight *a, const sac_weight *b, const char *what, int layer) {
    if (a->format != b->format || a->group != b->group || a->x_rounding != b->x_rounding)
        fail_msg("%s of layer %d is of another format", what, layer);
    same_part(&a->tensor, &b->tensor, what, layer);
    same_part(&a->scales, &b->scales, what, layer);
}

/* All that the decoder computes with. */
static void same_decoder(const sac_decoder *a, const sac_decoder *b) {
    const size_t hidden = (size_t)a->config.hidden * sizeof(float);
    assert_int_equal(a->config.n_layers, b->config.n_layers);
    assert_memory_equal(a->final_norm, b->final_norm, hidden);
    same_weight(&a->embed, &b->embed, "embed", -1);
    same_weight(&a->head, &b->head, "head", -1);
    for (int i = 0; i < a->config.n_layers; i++) {
        const sac_decoder_layer *x = &a->layers[i], *y = &b->layers[i];
        same_weight(&x->q, &y->q, "q", i);
        same_weight(&x->k, &y->k, "k", i);
        same_weight(&x->v, &y->v, "v", i);
        same_weight(&x->o, &y->o, "o", i);
        same_weight(&x->gate, &y->gate, "gate", i);
        same_weight(&x->up, &y->up, "up", i);
        same_weight(&x->down, &y->down, "down", i);
        assert_memory_equal(x->attn_norm, y->attn_norm, hidden);
        assert_memory_equal(x->mlp_norm, y->mlp_norm, hidden);
        assert_memory_equal(x->q_bias, y->q_bias, hidden);
    }
}

static uint64_t size_of(const char *path) {
    char line[400];
    snprintf(line, sizeof line, "find %s -type f -printf '%%s\\n' | awk '{n += $1} END {print n}'", path);
    FILE *f = popen(line, "r");
    unsigned long long n = 0;
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%llu", &n), 1);
    pclose(f);
    return n;
}

/* What is written is read as what rounding at load makes, in the size that was told. */
static void files_hold_what_loading_rounds_to(void **state) {
    (void)state;
    static const char *const formats[] = {"w4a16", "w4a16:g=64", "w8a16", "w8a16:g=32", "int8", "fp8",    "q8_0",   "q4_0",
                                          "q4_1",  "q5_0",       "q5_1",  "q4_k_s",     "q4_k_m", "q5_k_m", "q6_k", "bf16"};
    for (size_t i = 0; i < SAC_COUNT(formats); i++) {
        sac_scheme s;
        sac_error err;
        watch w;
        sac_loaded_model written, rounded;
        assert_int_equal(sac_scheme_parse(&s, formats[i], NULL), SAC_OK);
        const char *out = at(s.is_gguf ? "model.gguf" : "model");
        assert_ok(quantize(DEMO, out, formats[i], &w, &err), err);
        assert_int_equal(w.n_planned, 1);
        assert_int_equal(w.plan.n_bytes, size_of(out));
        assert_int_equal(w.plan.n_rounded, s.is_gguf ? 64 : 63);
        assert_int_equal(w.plan.drops_vision, s.is_gguf);
        open_model(&written, out, NULL);
        open_model(&rounded, DEMO, formats[i]);
        same_decoder(&written.decoder, &rounded.decoder);
        assert_int_equal(written.has_vision, !s.is_gguf);
        if (!s.is_gguf) assert_int_equal(written.weight_bytes - rounded.weight_bytes,
                                         s.type == SAC_DTYPE_PACKED_4 || s.type == SAC_DTYPE_PACKED_8 ? 63 * 16 : 0);
        sac_loaded_model_free(&written);
        sac_loaded_model_free(&rounded);
        shell("rm -r %s%s", out, "");
    }
}

/* Two steps are one: 16 bits in between lose nothing, and metadata stays. */
static void gguf_files_are_rounded_like_folders(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const char *half = at("half.gguf"), *first = at("first.gguf"), *second = at("second.gguf");
    assert_ok(quantize(DEMO, half, "bf16", &w, &err), err);
    assert_ok(quantize(half, first, "q4_k_m", &w, &err), err);
    assert_int_equal(w.plan.n_bytes, size_of(first));
    assert_ok(quantize(DEMO, second, "q4_k_m", &w, &err), err);
    sac_loaded_model a, b;
    open_model(&a, first, NULL);
    open_model(&b, second, NULL);
    same_decoder(&a.decoder, &b.decoder);
    assert_int_equal(sac_tokenizer_n_vocab(a.tokenizer), sac_tokenizer_n_vocab(b.tokenizer));
    assert_int_equal(a.n_stop_ids, b.n_stop_ids);
    sac_loaded_model_free(&a);
    sac_loaded_model_free(&b);
    assert_int_equal(quantize(first, at("third.gguf"), "q8_0", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "quantised already"));
    assert_int_equal(quantize(half, at("folder"), "w4a16", &w, &err), SAC_UNSUPPORTED);
}

/* Rope's pairs are neighbours in files of the llama architecture: the same logits come of rows in another order, which the
 * reader's interleaved rope undoes, so here rows are looked at. */
static void rows_of_llama_take_turns(void **state) {
    (void)state;
    static const char source[] = "tests/golden/models/llama_f32";
    sac_error err;
    watch w;
    sac_loaded_model file, in;
    assert_ok(quantize(source, at("llama.gguf"), "f16", &w, &err), err);
    open_model(&file, at("llama.gguf"), NULL);
    open_model(&in, source, "f16");
    const sac_decoder_config *d = &in.decoder.config;
    const size_t row = (size_t)d->hidden * 2;
    const uint8_t *a = file.decoder.layers[0].q.tensor.data, *b = in.decoder.layers[0].q.tensor.data;
    assert_true(file.decoder.config.rope.interleaved);
    for (int r = 0; r < d->n_heads * d->head_dim; r++) {
        const int head = r / d->head_dim, i = r % d->head_dim;
        const int from = head * d->head_dim + i % 2 * (d->head_dim / 2) + i / 2;
        assert_memory_equal(a + (size_t)r * row, b + (size_t)from * row, row);
    }
    same_weight(&file.decoder.layers[0].v, &in.decoder.layers[0].v, "v", 0);
    sac_loaded_model_free(&file);
    sac_loaded_model_free(&in);
}

static void finished_files_are_taken_up_again(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const char *out = at("again"), *part = at("again.part");
    /* no file may be larger than this: the third of the shards cannot be written */
    struct rlimit was, low;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    low = was;
    low.rlim_cur = 6 << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    assert_int_equal(quantize(DEMO, out, "w4a16", &w, &err), SAC_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_non_null(strstr(err.text, "cannot be written"));
    assert_int_not_equal(access(out, F_OK), 0);
    assert_int_equal(access(part, F_OK), 0);
    assert_int_equal(quantize(DEMO, out, "w8a16", &w, &err), SAC_BAD_ARGUMENT); /* another format's remains */
    assert_int_equal(quantize_by("0.1.0 of old", out, "w4a16", &w, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "of another version of saccade"));
    shell("touch -d 2001-01-01 %s/model-0000[12]*%s", part, "");
    assert_ok(quantize(DEMO, out, "w4a16", &w, &err), err);
    assert_true(w.plan.bytes_done > 0 && w.plan.bytes_done < w.plan.n_bytes);
    assert_int_not_equal(access(part, F_OK), 0);
    struct stat st;
    char shard[400];
    snprintf(shard, sizeof shard, "%s/model-00001-of-00003.safetensors", out);
    assert_int_equal(stat(shard, &st), 0);
    assert_true(st.st_mtime < 1000000000); /* not written again */
    shell("rm -r %s; rm -rf %s", out, part);
    const char *whole = at("whole");
    assert_ok(quantize(DEMO, whole, "w4a16", &w, &err), err);
    sac_loaded_model m;
    open_model(&m, whole, NULL);
    sac_loaded_model_free(&m);
}

/* No file may be larger than so much while it is written. */
static sac_status quantize_within(rlim_t most, const char *out, const char *format, watch *w, sac_error *err) {
    struct rlimit was, low;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    low = was;
    low.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    const sac_status st = quantize(DEMO, out, format, w, err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    return st;
}

static void full_disks_leave_no_gguf(void **state) {
    (void)state;
    sac_error err;
    watch w;
    assert_int_equal(quantize_within(64 << 10, at("none.gguf"), "q8_0", &w, &err), SAC_IO);
    assert_int_not_equal(access(at("none.gguf"), F_OK), 0);
    assert_int_not_equal(access(at("none.gguf.part"), F_OK), 0);
    assert_int_not_equal(access(at("none.gguf.part.state"), F_OK), 0);
}

/* The tensors that are there are taken up, to the same bytes; another format's are not. */
static void finished_tensors_are_taken_up_again(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const char *out = at("on.gguf"), *part = at("on.gguf.part"), *note = at("on.gguf.part.state"), *whole = at("whole.gguf");
    assert_ok(quantize(DEMO, whole, "q8_0", &w, &err), err);
    assert_int_equal(w.plan.bytes_done, 0);
    uint64_t done = 0;
    for (int mib = 2; mib <= 6; mib += 2) {
        assert_int_equal(quantize_within((rlim_t)mib << 20, out, "q8_0", &w, &err), SAC_IO);
        assert_int_equal(w.plan.bytes_done, done);
        FILE *f = fopen(note, "r");
        unsigned long long n = 0;
        assert_true(f && fscanf(f, "%*64s %llu", &n) == 1 && !fclose(f));
        assert_true(n > done && n <= (unsigned)mib << 20);
        done = n;
    }
    assert_int_equal(quantize(DEMO, out, "q4_0", &w, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "is left of a run with another format"));
    assert_int_equal(quantize_by("0.1.0 of old", out, "q8_0", &w, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "of another version of saccade"));
    shell("cp -r %s %s", DEMO, at("demo")); /* the same bytes and name, at another time */
    assert_int_equal(quantize(at("demo"), out, "q8_0", &w, &err), SAC_BAD_ARGUMENT);
    assert_true(size_of(part) >= done);
    shell("cp %s %s.left", note, note);
    shell("cp %s %s.left", part, part);
    assert_ok(quantize(DEMO, out, "q8_0", &w, &err), err);
    assert_int_equal(w.plan.bytes_done, done);
    shell("cmp %s %s", out, whole);
    assert_true(access(part, F_OK) && access(note, F_OK));

    /* a file that is shorter than what is noted, none, a note that was not written to its end, and one that no run writes */
    static const char *const damaged[] = {"truncate -s 1000000 %1$s; cp %2$s.left %2$s", "rm %1$s; cp %2$s.left %2$s",
                                          "head -c 70 %2$s.left > %2$s",
                                          "sed 's/ 0/ +/' %2$s.left > %2$s",
                                          "rm %1$s; sed 's/^[0-7]/8/; t; s/^./0/' %2$s.left > %2$s"}; /* another run's, removed as told */
    for (size_t i = 0; i < SAC_COUNT(damaged); i++) {
        assert_int_equal(unlink(out), 0);
        shell("cp %s.left %s", part, part);
        shell(damaged[i], part, note);
        assert_ok(quantize(DEMO, out, "q8_0", &w, &err), err);
        assert_int_equal(w.plan.bytes_done, 0);
        shell("cmp %s %s", out, whole);
        assert_true(access(part, F_OK) && access(note, F_OK));
    }
    shell("rm %s %s", out, whole);
}

/* ---------------------------------------------------------------- beside other runs, and over what is there */

static void a_second_run_keeps_off(void **state) {
    (void)state;
    sac_error err;
    watch w;
    sac_out_file a = {0}, b = {0};
    const char *path = at("two.gguf"), *part = at("two.gguf.part");
    assert_ok(sac_out_open(&a, path, NULL, &err), err);
    assert_ok(sac_out_write(&a, "whole", 5, &err), err);
    assert_int_equal(sac_out_open(&b, path, NULL, &err), SAC_IO);
    assert_non_null(strstr(err.text, "another run writes"));
    assert_non_null(strstr(err.text, part));
    sac_out_abandon(&b);
    assert_int_equal(quantize(DEMO, path, "q8_0", &w, &err), SAC_IO);
    assert_non_null(strstr(err.text, "another run writes"));
    assert_int_equal(access(part, F_OK), 0);
    assert_ok(sac_out_close(&a, &err), err);
    assert_int_equal(size_of(path), 5);

    const char *out = at("both"), *both = at("both.part");
    assert_int_equal(mkdir(both, 0777), 0);
    const int other = open(both, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(quantize(DEMO, out, "fp8", &w, &err), SAC_IO);
    assert_non_null(strstr(err.text, "another run writes"));
    assert_true(w.n_planned == 0 && access(both, F_OK) == 0);
    close(other);
    assert_ok(quantize(DEMO, out, "fp8", &w, &err), err);
    shell("rm -r %s%s", out, "");
}

/* A longer file of a killed run is shortened; links are not followed. */
static void part_files_are_begun_anew(void **state) {
    (void)state;
    sac_error err;
    sac_out_file f = {0};
    const char *path = at("anew.gguf"), *part = at("anew.gguf.part"), *kept = at("kept");
    shell("echo something longer | tee %s > %s", part, kept);
    assert_ok(sac_out_open(&f, path, NULL, &err), err);
    assert_ok(sac_out_write(&f, "new", 3, &err), err);
    assert_ok(sac_out_close(&f, &err), err);
    assert_int_equal(size_of(path), 3);
    static const char *const links[] = {"ln -s %s %s", "ln %s %s"};
    for (size_t i = 0; i < SAC_COUNT(links); i++) {
        shell(links[i], kept, part);
        assert_int_equal(sac_out_open(&f, path, NULL, &err), SAC_IO);
        sac_out_abandon(&f);
        assert_int_equal(size_of(kept), 17);
        assert_int_equal(unlink(part), 0); /* still there */
    }
}

static void the_source_is_not_written_over(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const char *out = at("m.gguf"), *part = at("m.gguf.part"), *half = at("source.gguf");
    assert_ok(quantize(DEMO, half, "bf16", &w, &err), err);
    const uint64_t n_bytes = size_of(half);
    static const char *const ways[] = {"mv %s %s", "ln %s %s", "ln -s %s %s"};
    for (size_t i = 0; i < SAC_COUNT(ways); i++) {
        shell(ways[i], half, part);
        assert_int_equal(quantize(i ? half : part, out, "q8_0", &w, &err), SAC_BAD_ARGUMENT);
        if (!strstr(err.text, "is the source")) fail_msg("%s", err.text);
        if (i == 0) shell("mv %s %s", part, half);
        else assert_int_equal(unlink(part), 0);
        assert_int_equal(size_of(half), n_bytes);
    }
    shell("cp -r " DEMO " %1$s; ln %1$s/model-00001-of-00003.safetensors %2$s", at("d.part"), part);
    assert_int_equal(quantize(at("d.part"), at("d"), "fp8", &w, &err), SAC_BAD_ARGUMENT);
    if (!strstr(err.text, "is the source")) fail_msg("%s", err.text);
    assert_int_equal(quantize(at("d.part"), out, "q8_0", &w, &err), SAC_BAD_ARGUMENT);
    if (!strstr(err.text, "is the source")) fail_msg("%s", err.text);
    shell("cmp %s/model-00001-of-00003.safetensors " DEMO "/model-00001-of-00003.safetensors && rm %s", at("d.part"), part);
}

/* What the end would not manage is refused before the work. */
static void folders_that_cannot_be_replaced_are_refused(void **state) {
    (void)state;
    sac_error err;
    watch w;
    shell("mkdir %1$s; ln -s %1$s %2$s", at("empty"), at("link"));
    const char *const outs[] = {at("empty/."), at("empty/.."), at("link"), at("link/"), ".", "/proc"};
    for (size_t i = 0; i < SAC_COUNT(outs); i++) {
        assert_int_equal(quantize(DEMO, outs[i], "fp8", &w, &err), SAC_BAD_ARGUMENT);
        if (!strstr(err.text, "name a folder inside it")) fail_msg("%s", err.text);
        assert_int_equal(w.n_planned, 0);
    }
    assert_ok(quantize(DEMO, at("empty"), "fp8", &w, &err), err);
    assert_int_equal(w.plan.n_bytes, size_of(at("empty"))); /* nothing of the unfinished folder */
    shell("rm -r %s %s", at("empty"), at("link"));
}

static const char *late; /* a file that comes to be in OUT while a run is at work */

static void put_late(void *ctx, const sac_quantize_plan *plan) {
    planned(ctx, plan);
    if (late) shell("mkdir -p $(dirname %s) && touch %s", late, late);
}

/* A rename that fails loses nothing: the same command goes on. */
static void a_failed_rename_keeps_the_work(void **state) {
    (void)state;
    sac_error err;
    watch w = {0};
    const char *out = at("late");
    const sac_quantize_options o = {.format = "fp8", .n_threads = 2, .planned = put_late, .ctx = &w};
    late = at("late/file");
    assert_int_equal(sac_quantize(DEMO, out, &o, &err), SAC_IO);
    assert_non_null(strstr(err.text, "cannot be renamed"));
    shell("rm -r %s%s", out, "");
    assert_ok(quantize(DEMO, out, "fp8", &w, &err), err);
    assert_true(w.plan.bytes_done > w.plan.n_bytes / 2);
    shell("rm -r %s%s", out, "");
    shell("mkdir %s && echo 0 > %s", at("late.part"), at("late.part/quantize.state.part")); /* killed at its beginning */
    assert_ok(quantize(DEMO, out, "fp8", &w, &err), err);
    assert_int_equal(w.plan.n_bytes, size_of(out));
    shell("rm -r %s%s", out, "");
}

/* The room of OUT.part is there for the run that writes it over. */
static void room_of_unfinished_files_counts(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const char *file = at("room.gguf"), *out = at("room"), *part = at("room.part");
    assert_ok(quantize(DEMO, file, "bf16", &w, &err), err);
    bytes_free = w.plan.n_bytes / 2;
    shell("mv %1$s %1$s.part%2$s", file, "");
    assert_ok(quantize(DEMO, file, "bf16", &w, &err), err);
    assert_true(w.plan.bytes_free > w.plan.n_bytes);
    shell("rm %s%s", file, "");
    assert_int_equal(quantize(DEMO, file, "bf16", &w, &err), SAC_IO);
    assert_non_null(strstr(err.text, "are free"));

    bytes_free = (uint64_t)1 << 40;
    late = at("room/file");
    const sac_quantize_options o = {.format = "fp8", .n_threads = 2, .planned = put_late, .ctx = &w};
    assert_int_equal(sac_quantize(DEMO, out, &o, &err), SAC_IO); /* leaves all */
    shell("rm -r %s && cd %s && mv model-00002-of-00003.safetensors model-00002-of-00003.safetensors.part", out, part);
    bytes_free = 100 << 10;
    assert_ok(quantize(DEMO, out, "fp8", &w, &err), err);
    const uint64_t left = w.plan.n_bytes - w.plan.bytes_done;
    assert_true(left > bytes_free && w.plan.bytes_free >= left && w.plan.bytes_free < w.plan.n_bytes);
    shell("rm -r %s%s", out, "");
    bytes_free = (uint64_t)1 << 40;
}

static void tensors_without_elements_are_refused_by_name(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const char *file = at("none.gguf");
    assert_ok(quantize(DEMO, file, "bf16", &w, &err), err);
    FILE *f = fopen(file, "r+b");
    assert_non_null(f);
    static uint8_t head[8 << 20];
    const size_t n = fread(head, 1, sizeof head, f);
    static const char name[] = "output_norm.weight";
    const uint8_t *found = memmem(head, n, name, sizeof name - 1); /* then the count of its dimensions, and the first */
    const uint64_t none = 0;
    assert_non_null(found);
    fseek(f, found - head + (long)sizeof name - 1 + 4, SEEK_SET);
    assert_int_equal(fwrite(&none, 1, sizeof none, f), sizeof none);
    fclose(f);
    assert_int_equal(quantize(file, at("some.gguf"), "q8_0", &w, &err), SAC_BAD_FILE);
    if (!strstr(err.text, name) || !strstr(err.text, "at least")) fail_msg("%s", err.text);
    assert_int_equal(unlink(file), 0);

    sac_out_file out = {0};
    const sac_checkpoint_tensor t = {.dtype = SAC_DTYPE_F32, .n_dims = 2, .dim = {3, 0}, .file = -1};
    sac_rounded r;
    sac_rounded_of(&r, &t);
    assert_ok(sac_out_open(&out, file, NULL, &err), err);
    assert_ok(sac_out_rounded(&out, &r, NULL, &err), err);
    assert_int_equal(out.n_bytes, 0);
    sac_out_abandon(&out);
}

/* A copy of the demo model in which some bytes of a tensor are others. */
static void damage(const char *to, const char *tensor, const void *bytes, size_t n_bytes) {
    sac_loaded_model m;
    shell("cp -r " DEMO " %s%s", to, "");
    open_model(&m, to, NULL);
    for (int i = 0; i < m.n_tensors; i++) {
        if (!strstr(m.tensors[i].name, tensor)) continue;
        for (int shard = 1; shard <= 3; shard++) { /* where its first bytes are */
            char path[400];
            snprintf(path, sizeof path, "%s/model-0000%d-of-00003.safetensors", to, shard);
            FILE *f = fopen(path, "r+b");
            assert_non_null(f);
            fseek(f, 0, SEEK_END);
            const long size = ftell(f);
            uint8_t *all = malloc((size_t)size);
            rewind(f);
            assert_int_equal(fread(all, 1, (size_t)size, f), size);
            uint8_t *found = memmem(all, (size_t)size, m.tensors[i].tensor.data, 64);
            if (found) {
                fseek(f, found - all, SEEK_SET);
                fwrite(bytes, 1, n_bytes, f);
            }
            free(all);
            fclose(f);
        }
        break;
    }
    sac_loaded_model_free(&m);
}

/* A run that fails leaves OUT.part where there is something in it to go on with, and only there. */
static void what_a_failure_leaves(void **state) {
    (void)state;
    static const char *const broken[] = {"layers.0.mlp.up_proj.weight", "layers.4.mlp.up_proj.weight"};
    const uint16_t nan = 0x7fc0;
    bool is_left[2];
    for (int i = 0; i < 2; i++) {
        char from[300], to[300], part[320], file[400];
        sac_error err;
        watch w;
        snprintf(from, sizeof from, "%s%d", at("broken"), i);
        snprintf(to, sizeof to, "%s%d", at("failed"), i);
        snprintf(part, sizeof part, "%s.part", to);
        snprintf(file, sizeof file, "%s/model-00001-of-00003.safetensors", part);
        damage(from, broken[i], &nan, sizeof nan);
        assert_int_equal(quantize(from, to, "w4a16", &w, &err), SAC_BAD_FILE);
        assert_non_null(strstr(err.text, broken[i]));
        is_left[i] = access(part, F_OK) == 0;
        assert_int_equal(is_left[i], access(file, F_OK) == 0);
    }
    assert_true(!is_left[0] && is_left[1]);
}

static void bad_sources_are_refused_by_name(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const uint16_t nan = 0x7fc0;
    const char *bad = at("bad");
    damage(bad, "layers.4.mlp.up_proj.weight", &nan, sizeof nan);
    assert_int_equal(quantize(bad, at("out"), "w4a16", &w, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "layers.4.mlp.up_proj.weight"));
    assert_int_equal(quantize(bad, at("out.gguf"), "q4_k_m", &w, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "not finite"));
    assert_int_not_equal(access(at("out"), F_OK), 0);
    sac_loaded_model m;
    const sac_load_options o = {.tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .weights = "q8_0"};
    assert_int_equal(sac_loaded_model_open_with(&m, bad, &o, &err), SAC_BAD_FILE);
    assert_non_null(strstr(err.text, "layers.4.mlp.up_proj.weight"));

    static const struct {
        const char *in, *out, *format;
        sac_status want;
        const char *says;
    } cases[] = {
        {DEMO, "x", "q5", SAC_BAD_ARGUMENT, "not known"},
        {DEMO, "x", "q4_k_m", SAC_BAD_ARGUMENT, ".gguf"},
        {DEMO, "x.gguf", "fp8", SAC_BAD_ARGUMENT, "folder"},
        {DEMO, "no/such/folder/x", "fp8", SAC_IO, "written"},
        {"no/such/model/at/all", "x", "fp8", SAC_NOT_FOUND, "no such"},
        {DEMO, "", "fp8", SAC_BAD_ARGUMENT, "there already"},
        {DEMO, "x", "w4a16:g=4096", SAC_UNSUPPORTED, "no matrix"},
    };
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        assert_int_equal(quantize(cases[i].in, at(cases[i].out), cases[i].format, &w, &err), cases[i].want);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s", err.text);
    }
    const char *four = at("four");
    assert_ok(quantize(DEMO, four, "w4a16", &w, &err), err);
    assert_int_equal(quantize(four, at("five"), "w8a16", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "quantised already"));
    assert_int_equal(sac_loaded_model_open_with(&m, four, &o, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "quantised already"));
    assert_int_equal(quantize(DEMO, four, "w4a16", &w, &err), SAC_BAD_ARGUMENT); /* there already */
}

/* Rows of 384 are no whole groups of 256: those stay, and the configuration says so. */
static void matrices_that_do_not_fit_stay(void **state) {
    (void)state;
    sac_error err;
    watch w;
    sac_loaded_model m;
    assert_ok(quantize(DEMO, at("wide"), "w8a16:g=256", &w, &err), err);
    assert_int_equal(w.plan.n_rounded, 9); /* of down_proj */
    assert_int_equal(w.plan.n_kept, 54);
    assert_non_null(strstr(w.plan.first_kept, "layers.0."));
    open_model(&m, at("wide"), NULL);
    assert_int_equal(m.decoder.layers[3].q.format, SAC_WEIGHT_FLOATS);
    assert_int_equal(m.decoder.layers[3].down.format, SAC_WEIGHT_PACKED);
    sac_loaded_model_free(&m);
    shell("grep -q 'layers..*3..*self_attn..*q_proj' %s/config.json%s", at("wide"), "");
    open_model(&m, DEMO, "w8a16:g=256"); /* and a model that is rounded while it is loaded says so too */
    assert_int_equal(m.unrounded.n, 54);
    assert_non_null(strstr(m.unrounded.first, "layers.0."));
    sac_loaded_model_free(&m);
    open_model(&m, DEMO, "w8a16");
    assert_int_equal(m.unrounded.n, 0);
    sac_loaded_model_free(&m);
}

/* A format that no matrix's rows fit is refused, with what would fit, and not silently without effect. */
static void formats_that_fit_nothing_are_refused(void **state) {
    (void)state;
    sac_error err;
    watch w;
    sac_loaded_model m;
    const sac_load_options o = {.tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .weights = "w4a16:g=4096"};
    assert_int_equal(sac_loaded_model_open_with(&m, DEMO, &o, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "--weights w4a16:g=4096"));
    assert_non_null(strstr(err.text, "rows of 384 elements"));
    assert_non_null(strstr(err.text, "w4a16:g=N"));
    assert_int_equal(quantize(DEMO, at("none"), "w4a16:g=4096", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "rows of 384 elements"));
    assert_non_null(strstr(err.text, "w4a16:g=N"));
    assert_int_equal(quantize("tests/golden/models/llama_f32", at("none"), "w8a16:g=16", &w, &err), SAC_UNSUPPORTED);
    const sac_load_options eights = {.tokenizer_rule = SAC_TOKENIZER_BY_CLASS, .weights = "w8a16"};
    assert_ok(sac_loaded_model_open_with(&m, "tests/golden/models/llama_f32", &eights, &err), err);
    assert_int_equal(m.unrounded.n, m.decoder.config.n_layers); /* down_proj, with rows of 51 */
    sac_loaded_model_free(&m);
}

/* An adapter that lies in the folder belongs to the model: a GGUF file of the rest would be another model. */
static void adapters_are_not_lost(void **state) {
    (void)state;
    static const char source[] = "tests/golden/models/llama_f32", adapters[] = "tests/golden/adapters";
    sac_error err;
    watch w;
    const char *both = at("both"), *typo = at("typo.gguf");
    char adapter[200];
    shell("cp -r %s %s", source, both);
    snprintf(adapter, sizeof adapter, "%s/llama_f32/attention", adapters);
    shell("cp %s/adapter_* %s", adapter, both);
    assert_int_equal(quantize(both, at("both.gguf"), "f16", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "both/adapter_config.json"));
    assert_non_null(strstr(err.text, "merge_and_unload"));
    assert_ok(quantize(both, at("both-fp8"), "fp8", &w, &err), err); /* folders keep it */
    assert_int_equal(access(at("both-fp8/adapter_config.json"), F_OK), 0);

    snprintf(adapter, sizeof adapter, "%s/gguf_llama_f32/gguf_attention.gguf", adapters);
    assert_int_equal(quantize(adapter, at("adapter.gguf"), "q8_0", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "an adapter"));
    shell("sed s/general.type/general.typo/ %s > %s", adapter, typo);
    assert_int_equal(quantize(typo, at("adapter.gguf"), "q8_0", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no matrix"));
    assert_int_not_equal(access(at("adapter.gguf"), F_OK), 0);
}

static void write_file(const char *folder_name, const char *name, const char *text) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder_name, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* What a GGUF file of the folder says of conversations is what the folder says. */
static void same_conversations(const char *in, const char *out) {
    sac_error err;
    watch w;
    sac_loaded_model a, b;
    assert_ok(quantize(in, out, "f16", &w, &err), err);
    assert_string_equal(w.plan.chat_lost, "");
    open_model(&a, in, NULL);
    open_model(&b, out, NULL);
    assert_true(sac_chat_templates_count(a.templates) > 0);
    assert_int_equal(sac_chat_templates_count(a.templates), sac_chat_templates_count(b.templates));
    for (size_t i = 0; i < sac_chat_templates_count(a.templates); i++) {
        const sac_text_span x = sac_chat_templates_text(a.templates, i);
        size_t k = 0;
        while (strcmp(sac_chat_templates_name(b.templates, k), sac_chat_templates_name(a.templates, i)))
            assert_true(++k < sac_chat_templates_count(b.templates));
        assert_int_equal(sac_chat_templates_text(b.templates, k).n_bytes, x.n_bytes);
        assert_memory_equal(sac_chat_templates_text(b.templates, k).text, x.text, x.n_bytes);
    }
    assert_int_equal(a.n_stop_ids, b.n_stop_ids);
    for (int i = 0, k; i < a.n_stop_ids; i++) {
        for (k = 0; k < b.n_stop_ids && a.stop_ids[i] != b.stop_ids[k]; k++) continue;
        assert_true(k < b.n_stop_ids);
    }
    sac_loaded_model_free(&a);
    sac_loaded_model_free(&b);
    shell("rm %s%s", out, "");
}

static void gguf_files_keep_how_models_chat(void **state) {
    (void)state;
    sac_error err;
    watch w;
    const char *in = at("talks"), *out = at("talks.gguf");
    shell("cp -r %s %s", "tests/golden/models/qwen3", in);
    write_file(in, "generation_config.json", "{\"eos_token_id\": [7, 280, 7, 11]}");
    write_file(in, "tokenizer_config.json", "{\"chat_template\": \"t {{ messages[0].content }}\"}");
    same_conversations(in, out);
    write_file(in, "processor_config.json",
               "{\"chat_template\": {\"default\": \"p {{ messages[0].content }}\", \"tool_use\": \"u\", \"rag\": \"r\"}}");
    same_conversations(in, out);
    write_file(in, "chat_template.json",
               "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"{{ messages }}\"}]}");
    same_conversations(in, out);
    write_file(in, "chat_template.jinja", "j {{ messages[0].content }}");
    shell("mkdir %s/additional_chat_templates; echo x > %s/additional_chat_templates/two.jinja", in, in);
    same_conversations(in, out);
    shell("cd %s/additional_chat_templates; mv two.jinja %s.jinja", in,
          "a_name_that_is_longer_than_those_that_readers_of_gguf_files_will_take");
    assert_int_equal(quantize(in, out, "f16", &w, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "chat template's name"));

    assert_ok(quantize("tests/golden/models/mistral", out, "f16", &w, &err), err);
    assert_string_equal(w.plan.chat_lost, "mistral");
    assert_string_equal(w.plan.chat_instead, "llama-2");
}

/* A tower in a folder of its own, under a name with a slash, whose sizes only its own config.json says. */
static void towers_go_with_their_models(void **state) {
    (void)state;
    sac_error err;
    watch w;
    sac_loaded_model a, b;
    const char *in = at("parts"), *out = at("parts-fp8");
    shell("cp -r %s %s", "tests/golden/models/longva_tower", in);
    shell("mkdir %s/maker && test -d %s/vision_tower", in, in);
    shell("mv %s/vision_tower %s/maker/eye", in, in);
    shell("sed -i s,openai/clip-vit-large-patch14-336,maker/eye, %s/config.json%s", in, "");
    assert_ok(quantize(in, out, "fp8", &w, &err), err);
    assert_int_equal(w.plan.n_bytes, size_of(out));
    shell("cmp %s/maker/eye/model.safetensors %s/maker/eye/model.safetensors", in, out);
    shell("grep -q vision_config %s/config.json && exit 1 || exit 0%s", out, ""); /* as it stood */
    open_model(&a, in, "fp8");
    open_model(&b, out, NULL);
    same_weight(&a.decoder.layers[1].down, &b.decoder.layers[1].down, "down", 1);
    assert_true(b.has_vision);
    assert_int_equal(a.tower.config.hidden, b.tower.config.hidden);
    sac_loaded_model_free(&a);
    sac_loaded_model_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_what_loading_rounds_to),
        cmocka_unit_test(gguf_files_are_rounded_like_folders),
        cmocka_unit_test(rows_of_llama_take_turns),
        cmocka_unit_test(finished_files_are_taken_up_again),
        cmocka_unit_test(full_disks_leave_no_gguf),
        cmocka_unit_test(finished_tensors_are_taken_up_again),
        cmocka_unit_test(a_second_run_keeps_off),
        cmocka_unit_test(part_files_are_begun_anew),
        cmocka_unit_test(the_source_is_not_written_over),
        cmocka_unit_test(folders_that_cannot_be_replaced_are_refused),
        cmocka_unit_test(a_failed_rename_keeps_the_work),
        cmocka_unit_test(room_of_unfinished_files_counts),
        cmocka_unit_test(tensors_without_elements_are_refused_by_name),
        cmocka_unit_test(what_a_failure_leaves),
        cmocka_unit_test(bad_sources_are_refused_by_name),
        cmocka_unit_test(matrices_that_do_not_fit_stay),
        cmocka_unit_test(formats_that_fit_nothing_are_refused),
        cmocka_unit_test(adapters_are_not_lost),
        cmocka_unit_test(gguf_files_keep_how_models_chat),
        cmocka_unit_test(towers_go_with_their_models),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
