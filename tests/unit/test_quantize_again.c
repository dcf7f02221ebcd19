/* `saccade quantize` that did not come to its end: what is left, taken up again; beside other runs, and over what is there. */
#define _GNU_SOURCE
#include "quantize_test.h"

#include "out_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

/* By another program than this one. */
static sac_status quantize_by(const char *program, const char *out, const char *format, watch *w, sac_error *err) {
    const sac_quantize_options o = {.format = format, .program = program, .n_threads = 2, .planned = planned, .ctx = w};
    *w = (watch){0};
    return sac_quantize(DEMO, out, &o, err);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finished_files_are_taken_up_again),
        cmocka_unit_test(full_disks_leave_no_gguf),
        cmocka_unit_test(finished_tensors_are_taken_up_again),
        cmocka_unit_test(a_second_run_keeps_off),
        cmocka_unit_test(part_files_are_begun_anew),
        cmocka_unit_test(the_source_is_not_written_over),
        cmocka_unit_test(folders_that_cannot_be_replaced_are_refused),
        cmocka_unit_test(a_failed_rename_keeps_the_work),
        cmocka_unit_test(room_of_unfinished_files_counts),
        cmocka_unit_test(what_a_failure_leaves),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
