/* Beginnings that no session holds any more: prompts find their rows in memory and on disk, and the answer has the bits that
 * it has without; what is dropped, damaged or of others is not taken. */
#define _GNU_SOURCE
#include "shared_rows_test.h"

#include "engine.h"
#include "store_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAMES = 3, FRAME_TOKENS = 64, MIB = 1 << 20 };

typedef struct lines {
    int n;
    char last[400];
} lines;

static void keep_line(void *ctx, const char *line) {
    lines *l = ctx;
    l->n++;
    snprintf(l->last, sizeof l->last, "%s", line);
}

static sac_beginnings *open_store(const sac_model *m, size_t memory_bytes, const char *dir, size_t disk_bytes, lines *l) {
    sac_beginnings *b;
    sac_error err;
    sac_store_options o = {
        .memory_bytes = memory_bytes, .dir = dir, .disk_bytes = disk_bytes, .say = l ? keep_line : NULL, .say_ctx = l};
    assert_ok(sac_beginnings_open(&b, m, &err), err);
    assert_ok(sac_beginnings_keep(b, &o, &err), err);
    return b;
}

static sac_session *join(sac_session *s, sac_beginnings *b) {
    sac_error err;
    assert_ok(sac_session_join(s, b, &err), err);
    return s;
}

static sac_beginnings_report report_of(sac_beginnings *b) {
    sac_beginnings_report r;
    sac_beginnings_get_report(b, &r);
    return r;
}

/* ---------------------------------------------------------------- folders */

static char folder[] = "/tmp/saccade-store-XXXXXX";

/* fn for every file of the folder; how many there are. */
static int each_file(const char *path, void (*fn)(const char *file)) {
    DIR *d = opendir(path);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char file[400];
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (fn) fn(file);
        n++;
    }
    closedir(d);
    return n;
}

static void remove_file(const char *file) {
    assert_int_equal(unlink(file), 0);
}

static const char *new_folder(void) {
    strcpy(folder, "/tmp/saccade-store-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static void remove_folder(void) {
    each_file(folder, remove_file);
    assert_int_equal(rmdir(folder), 0);
}

/* ---------------------------------------------------------------- the index */

static sac_store_block *block(int name, const sac_store_block *parent, size_t n_bytes) {
    sac_store_block *b = sac_store_block_new(n_bytes);
    assert_non_null(b);
    b->key.hash[0] = (uint8_t)name;
    b->rows[5].a = (uint64_t)name;
    if (parent) b->before = parent->key;
    return b;
}

static bool has(const sac_store_index *x, int name) {
    return sac_store_index_find_key(x, &(sac_store_key){{(uint8_t)name}}) != NULL;
}

static void children_go_before_parents(void **state) {
    (void)state;
    sac_store_index x;
    const size_t one = sizeof(sac_store_block) + 100;
    assert_true(sac_store_index_init(&x, 5 * one));
    sac_store_block *b[8];
    b[1] = block(1, NULL, 100), b[2] = block(2, b[1], 100), b[3] = block(3, b[2], 100), b[4] = block(4, b[1], 100);
    assert_true(sac_store_index_add(&x, b[1], NULL) && sac_store_index_add(&x, b[2], b[1]));
    assert_true(sac_store_index_add(&x, b[3], b[2]) && sac_store_index_add(&x, b[4], b[1]));
    b[5] = block(5, NULL, 100);
    assert_true(sac_store_index_add(&x, b[5], NULL) && x.used_bytes == 5 * one && x.n_dropped == 0);
    sac_store_index_use(&x, b[1]); /* 1 2 3 are used again: 4, then 5 are the oldest */
    sac_store_index_use(&x, b[2]);
    sac_store_index_use(&x, b[3]);
    b[6] = block(6, NULL, 100);
    assert_true(sac_store_index_add(&x, b[6], NULL) && !has(&x, 5) == has(&x, 4));
    assert_true(has(&x, 1) && has(&x, 2) && has(&x, 3) && has(&x, 6) && x.n_dropped == 1);
    sac_store_index_find_key(&x, &b[6]->key)->n_users = 1; /* in use: what is newer goes */
    b[7] = block(7, NULL, 2 * one);
    assert_true(sac_store_index_add(&x, b[7], NULL));
    assert_true(has(&x, 1) && has(&x, 6) && has(&x, 7) && !has(&x, 3) && x.used_bytes <= x.capacity_bytes);
    sac_store_block *big = block(9, NULL, 6 * one);
    assert_false(sac_store_index_add(&x, big, NULL));
    free(big);
    sac_store_row other[SAC_STORE_ROWS];
    memcpy(other, b[1]->rows, sizeof other);
    assert_ptr_equal(sac_store_index_find(&x, &b[1]->key, &b[1]->before, other, 100), b[1]);
    other[63].number[2] = 1; /* the same key: rows count all the same */
    assert_null(sac_store_index_find(&x, &b[1]->key, &b[1]->before, other, 100));
    assert_null(sac_store_index_find(&x, &b[1]->key, &b[6]->key, b[1]->rows, 100));
    assert_null(sac_store_index_find(&x, &b[1]->key, &b[1]->before, b[1]->rows, 99));
    sac_store_index_free(&x);
}

/* A chain that is too long keeps its beginning. */
static void a_long_chain_keeps_its_beginning(void **state) {
    (void)state;
    sac_store_index x;
    const size_t one = sizeof(sac_store_block) + 100;
    assert_true(sac_store_index_init(&x, 3 * one));
    sac_store_block *last = NULL, *b;
    for (int i = 1; i <= 3; i++) {
        assert_true(sac_store_index_add(&x, b = block(i, last, 100), last));
        last = b;
    }
    assert_false(sac_store_index_add(&x, b = block(4, last, 100), last));
    free(b);
    assert_true(has(&x, 1) && has(&x, 2) && has(&x, 3));
    sac_store_index_free(&x);
}

/* ---------------------------------------------------------------- the same bits */

typedef struct method {
    const char *prefill, *decode, *kv;
    bool shares;
} method;

static const method methods[] = {
    {NULL, NULL, NULL, true},
    {NULL, NULL, "f32", true},
    {NULL, NULL, "bf16", true},
    {"streaming:start=4,recent=100", NULL, NULL, true},
    {"selfextend:group=2,window=128", NULL, "f32", true},
    {NULL, "streaming:start=4,recent=100", NULL, true},
    {NULL, "quest:budget=64,page=16", NULL, true},
    {NULL, "tokenselect:init=16,k=64,local=32", NULL, true},
    {NULL, "twilight:base=quest,base.budget=64", "f32", true},
    {"zipvl:min=0", NULL, NULL, false},
    {NULL, "snapkv:cap=64", NULL, false},
    {NULL, NULL, "kivi", false},
};

/* Asked, lost to another prompt, asked again otherwise: out of memory, then by another process's store out of files. */
static void a_video_that_was_lost(void **state) {
    static heard want[2], h;
    (void)state;
    sac_sampling o = step_sampling(20);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const method *m = &methods[i];
        asked q[3];
        ask_about(&q[0], STEP_VIDEO, FRAMES, "How many numbers appear?");
        ask_about(&q[1], STEP_VIDEO, FRAMES, "Describe the video.");
        ask_about(&q[2], STEP_PICTURE, 0, "Describe the image.");
        sac_session *alone = step_session(model, m->prefill, m->decode, m->kv, 1024);
        for (int k = 0; k < 2; k++) {
            sac_session_reset(alone);
            hear_alone(&want[k], model, alone, &q[k].message, &o);
        }
        sac_session_free(alone);
        const char *dir = new_folder();
        for (int start = 0; start < 2; start++) {
            lines l = {0};
            sac_beginnings *b = open_store(model, 64 * MIB, dir, 64 * MIB, &l);
            sac_session *s = join(step_session(model, m->prefill, m->decode, m->kv, 1024), b);
            hear_alone(&h, model, s, &q[0].message, &o);
            heard_equal(&h, &want[0]);
            assert_true(start && m->shares ? h.n_reused >= FRAMES * FRAME_TOKENS : h.n_reused == 0);
            assert_int_equal(sac_session_n_found(s), h.n_reused);
            hear_alone(&h, model, s, &q[2].message, &o);
            hear_alone(&h, model, s, &q[1].message, &o);
            heard_equal(&h, &want[1]);
            assert_true(m->shares ? h.n_reused >= FRAMES * FRAME_TOKENS : h.n_reused == 0);
            sac_beginnings_report r = report_of(b);
            assert_true(m->shares ? r.n_found > start : r.n_found == 0);
            assert_true(start && m->shares ? r.n_disk_rows >= FRAMES * FRAME_TOKENS : r.n_disk_rows == 0);
            assert_true(r.memory_bytes <= 64 * MIB && l.n == 0 && r.n_taken == 0);
            sac_session_free(s);
            sac_beginnings_close(b);
        }
        assert_true((each_file(dir, NULL) > 0) == m->shares);
        remove_folder();
    }
}

/* Rows of an answer are not kept, but a turn's prompt is when it was run whole. */
static void a_store_without_room(void **state) {
    static heard want, h;
    (void)state;
    sac_sampling o = step_sampling(12);
    asked q[2];
    ask_about(&q[0], STEP_VIDEO, FRAMES, "How many numbers appear?");
    ask_about(&q[1], STEP_PICTURE, 0, "Describe the image.");
    sac_session *alone = step_session(model, NULL, NULL, "f32", 1024);
    hear_alone(&want, model, alone, &q[0].message, &o);
    sac_session_free(alone);
    for (size_t bytes = 1; bytes <= 4 * MIB; bytes += bytes < 4096 ? 4095 : bytes / 2) {
        sac_beginnings *b = open_store(model, bytes, NULL, 0, NULL);
        sac_session *s = join(step_session(model, NULL, NULL, "f32", 1024), b);
        for (int k = 0; k < 3; k++) {
            hear_alone(&h, model, s, &q[0].message, &o);
            heard_equal(&h, &want);
            assert_true(report_of(b).memory_bytes <= bytes);
            hear_alone(&h, model, s, &q[1].message, &o);
        }
        sac_session_free(s);
        sac_beginnings_close(b);
    }
}

/* ---------------------------------------------------------------- files of strangers */

static void flip_a_bit(const char *file) {
    static int at;
    struct stat st;
    uint8_t byte;
    int fd = open(file, O_RDWR);
    assert_true(fd >= 0 && !fstat(fd, &st));
    off_t place = (off_t)((at++ * 7919) % (int)st.st_size);
    assert_int_equal(pread(fd, &byte, 1, place), 1);
    byte ^= (uint8_t)(1 << at % 8);
    assert_int_equal(pwrite(fd, &byte, 1, place), 1);
    close(fd);
}

static void cut_off(const char *file) {
    static int at;
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(truncate(file, at++ % 3 ? st.st_size - at : 100), 0);
}

static void make_longer(const char *file) {
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(truncate(file, st.st_size + 8), 0);
}

/* Another block's bytes under this name. */
static char one_of_them[400];
static void remember(const char *file) {
    snprintf(one_of_them, sizeof one_of_them, "%s", file);
}
static void put_another(const char *file) {
    char bytes[400];
    if (!strcmp(file, one_of_them)) return;
    snprintf(bytes, sizeof bytes, "cp '%s' '%s'", one_of_them, file);
    assert_int_equal(system(bytes), 0);
}

static void make_a_pipe(const char *file) {
    remove_file(file);
    assert_int_equal(mkfifo(file, 0600), 0);
}

static int64_t ask_once(const sac_model *m, const char *dir, lines *l, heard *h, const char *kv) {
    asked q;
    sac_sampling o = step_sampling(12);
    sac_beginnings *b = open_store(m, 64 * MIB, dir, 64 * MIB, l);
    sac_session *s = join(step_session(m, NULL, NULL, kv, 1024), b);
    hear_alone(h, m, s, ask_about(&q, STEP_VIDEO, FRAMES, "How many numbers appear?"), &o);
    sac_session_free(s);
    sac_beginnings_close(b);
    return h->n_reused;
}

static void damaged_files_are_not_taken(void **state) {
    static heard want, h;
    static void (*const damage[])(const char *) = {flip_a_bit, cut_off, make_longer, put_another, make_a_pipe};
    (void)state;
    const char *dir = new_folder();
    lines l = {0};
    assert_int_equal(ask_once(model, dir, &l, &want, NULL), 0);
    int n = each_file(dir, remember);
    assert_true(n >= 3);
    for (int round = 0; round < 9; round++) {
        size_t i = round < 5 ? (size_t)round : 0;
        int64_t whole = ask_once(model, dir, &l, &h, NULL);
        heard_equal(&h, &want);
        assert_true(whole >= FRAMES * FRAME_TOKENS && l.n == 0);
        each_file(dir, remember);
        each_file(dir, damage[i]);
        int64_t few = ask_once(model, dir, &l, &h, NULL);
        heard_equal(&h, &want);
        assert_true(few < whole && (i == 4 || (l.n >= 1 && strstr(l.last, "removed"))));
        for (int k = 1; k < n; k++) { /* one after the other is found to be damaged, and written anew */
            ask_once(model, dir, &l, &h, NULL);
            heard_equal(&h, &want);
        }
        l = (lines){0};
        assert_true(each_file(dir, NULL) == n);
    }
    assert_int_equal(ask_once(model, dir, &l, &h, "f32"), 0); /* of another format: found under no name */
    assert_int_equal(l.n, 0);
    assert_true(each_file(dir, NULL) == 2 * n);
    remove_folder();
}

/* A writer that is killed leaves nothing that is taken, and the next one clears up. */
static void a_killed_writer(void **state) {
    static heard want, h;
    (void)state;
    const char *dir = new_folder();
    char left[400];
    lines l = {0};
    ask_once(model, dir, &l, &want, NULL);
    each_file(dir, remove_file);
    snprintf(left, sizeof left, "%s/unfinished-1-1", dir);
    close(open(left, O_CREAT | O_WRONLY, 0600));
    for (int round = 0; round < 12; round++) {
        pid_t child = fork();
        if (child == 0) {
            sac_store_dir d;
            sac_store_block *b = sac_store_block_new(3 * MIB);
            if (sac_store_dir_open(&d, &(sac_store_options){.dir = dir, .disk_bytes = 1000 * MIB}, NULL) != SAC_OK) _exit(1);
            for (uint32_t i = 1;; i++) {
                memcpy(b->key.hash, &i, sizeof i);
                sac_store_dir_write(&d, b);
            }
        }
        usleep((useconds_t)(3000 + 1700 * round));
        kill(child, SIGKILL);
        int how;
        waitpid(child, &how, 0);
        assert_true(WIFSIGNALED(how));
    }
    ask_once(model, dir, &l, &h, NULL);
    heard_equal(&h, &want);
    assert_true(l.n == 0 && access(left, F_OK) != 0);
    sac_store_dir d;
    sac_error err;
    const sac_store_options o = {.dir = dir, .disk_bytes = 1000 * MIB, .say = keep_line, .say_ctx = &l};
    assert_ok(sac_store_dir_open(&d, &o, &err), err);
    sac_store_block *b = sac_store_block_new(3 * MIB);
    for (uint32_t i = 1; i < 400; i++) { /* every file that has a name is whole */
        memcpy(b->key.hash, &i, sizeof i);
        assert_true(sac_store_dir_has(&d, &b->key) == sac_store_dir_read(&d, b));
    }
    assert_int_equal(l.n, 0);
    free(b);
    sac_store_dir_close(&d);
    remove_folder();
}

/* The limit of the folder: what was not used for longest goes, a block before its parent. */
static void the_folder_has_a_limit(void **state) {
    (void)state;
    const char *dir = new_folder();
    sac_store_dir d;
    sac_error err;
    lines l = {0};
    enum { N = 40, BYTES = 32768 };
    const sac_store_options o = {.dir = dir, .disk_bytes = 16 * (BYTES + 4096), .say = keep_line, .say_ctx = &l};
    assert_ok(sac_store_dir_open(&d, &o, &err), err);
    sac_store_block *b[N];
    for (int i = 0; i < N; i++) {
        b[i] = sac_store_block_new(BYTES);
        b[i]->key.hash[0] = (uint8_t)(i + 1);
        if (i % 4) b[i]->before = b[i - 1]->key;
        assert_true(sac_store_dir_write(&d, b[i]));
        assert_true(sac_store_dir_write(&d, b[0])); /* used all along */
        assert_true(atomic_load(&d.used_bytes) <= 16 * (BYTES + 4096));
    }
    assert_true(sac_store_dir_has(&d, &b[0]->key) && sac_store_dir_has(&d, &b[N - 1]->key));
    assert_true(each_file(dir, NULL) <= 16 && each_file(dir, NULL) >= 10);
    for (int i = 4; i < N; i++) /* nothing stands without what is before it, but for one chain that is going */
        if (i % 4 && sac_store_dir_has(&d, &b[i]->key)) assert_true(sac_store_dir_has(&d, &b[i - 1]->key));
    sac_store_block *big = sac_store_block_new(16 * (BYTES + 4096));
    big->key.hash[0] = 200;
    assert_false(sac_store_dir_write(&d, big));
    assert_int_equal(l.n, 0);
    for (int i = 0; i < N; i++) free(b[i]);
    free(big);
    sac_store_dir_close(&d);
    remove_folder();
}

/* A disk that is full: one line, and answers as ever. */
static void a_full_disk(void **state) {
    static heard want, h;
    (void)state;
    const char *dir = new_folder();
    lines l = {0};
    struct rlimit before, none;
    ask_once(model, dir, &l, &want, NULL);
    int n = each_file(dir, remove_file);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){1000, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    ask_once(model, dir, &l, &h, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    heard_equal(&h, &want);
    assert_true(l.n == 1 && strstr(l.last, "cannot be written"));
    assert_int_equal(each_file(dir, NULL), 0);
    ask_once(model, dir, &l, &h, NULL);
    assert_true(l.n == 1 && each_file(dir, NULL) == n);
    remove_folder();
    sac_beginnings *b;
    sac_error err;
    assert_ok(sac_beginnings_open(&b, model, &err), err);
    assert_int_equal(sac_beginnings_keep(b, &(sac_store_options){.memory_bytes = MIB, .dir = "/dev/null/x"}, &err), SAC_IO);
    assert_int_equal(sac_beginnings_keep(b, &(sac_store_options){0}, &err), SAC_BAD_ARGUMENT);
    sac_beginnings_close(b);
}

/* ---------------------------------------------------------------- families, chunks, threads, adapters */

static const struct {
    const char *path, *chat;
    bool has_vision;
} families[] = {{FOLDER "llama_f32", NULL, false}, {FOLDER "qwen2_vl", "plain", true}, {FOLDER "qwen3_vl", "plain", true},
                {FOLDER "gemma3", "plain", true},  {FOLDER "gguf_llama_q8_0/q8_0.gguf", NULL, false},
                {FOLDER "qwen3_vl_moe", "plain", true}, {FOLDER "glm46v", NULL, true},
                {FOLDER "glm4v_moe", NULL, true}, {FOLDER "deepseek_v3", NULL, false},
                {FOLDER "kimi_vl", NULL, true}};

static sac_model *open_family(size_t f, int n_threads) {
    sac_model_options mo;
    sac_model *m;
    sac_error err;
    sac_model_options_default(&mo);
    mo.n_threads = n_threads;
    mo.chat_format = families[f].chat ? families[f].chat : "plain";
    assert_ok(sac_model_open(&m, families[f].path, &mo, &err), err);
    return m;
}

static void every_family_and_chunk(void **state) {
    static said want, got;
    static const char *texts[] = {LONG_TEXT LONG_TEXT LONG_TEXT "one", LONG_TEXT LONG_TEXT LONG_TEXT "two, and longer",
                                  "another beginning " LONG_TEXT};
    static const int chunks[] = {3, 12, 17, 40, 256};
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        sac_model *m = open_family(f, 1), *other = open_family(f, 3);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            const char *dir = new_folder();
            sac_session *alone = chunked(m, chunks[c], "f32");
            pictures p;
            say(m, alone, about(&p, families[f].has_vision, texts[1]), &want);
            sac_session_free(alone);
            for (int start = 0; start < 2; start++) {
                const sac_model *now = start ? other : m;
                sac_beginnings *b = open_store(now, 64 * MIB, dir, 64 * MIB, NULL);
                sac_session *s = join(chunked(now, chunks[c], "f32"), b);
                if (!start) say(now, s, about(&p, families[f].has_vision, texts[0]), &got);
                say(now, s, about(&p, false, texts[2]), &got);
                int64_t n = say(now, s, about(&p, families[f].has_vision, texts[1]), &got);
                if (n < 50) fail_msg("%s, chunks of %d: %lld rows", families[f].path, chunks[c], (long long)n);
                assert_memory_equal(&got, &want, sizeof got);
                sac_session_free(s);
                sac_beginnings_close(b);
            }
            remove_folder();
        }
        sac_model_free(m);
        sac_model_free(other);
    }
}

#define ADAPTERS "tests/golden/adapters/llama_f32/"

static void adapters_are_apart(void **state) {
    static const char *const kept[][2] = {{"a=" ADAPTERS "attention", "b=" ADAPTERS "all_linear:1.5"},
                                          {"b=" ADAPTERS "all_linear:1.5", "a=" ADAPTERS "attention"}};
    static said got;
    (void)state;
    const char *dir = new_folder();
    for (int start = 0; start < 2; start++) {
        sac_model_options o;
        sac_model *m;
        sac_error err;
        pictures p;
        sac_model_options_default(&o);
        o.chat_format = "plain";
        o.kept_adapters = kept[start];
        o.n_kept_adapters = 2;
        assert_ok(sac_model_open(&m, FOLDER "llama_f32", &o, &err), err);
        sac_beginnings *b = open_store(m, 64 * MIB, dir, 64 * MIB, NULL);
        sac_session *s = join(chunked(m, 256, "f32"), b);
        const char *names[] = {NULL, "a", "b"};
        for (int i = 0; i < 6; i++) {
            assert_ok(sac_session_set_adapter(s, names[i % 3], &err), err);
            int64_t n = say(m, s, about(&p, false, LONG_TEXT LONG_TEXT LONG_TEXT "one"), &got);
            assert_true(i < 3 ? n == 0 : n >= 64); /* the list of adapters counts: their numbers are others */
        }
        sac_session_free(s);
        sac_beginnings_close(b);
        sac_model_free(m);
    }
    remove_folder();
}

enum { THREADS = 3, ROUNDS = 12, QUESTIONS = 4 };
static said thread_want[QUESTIONS];
static const char *const thread_texts[QUESTIONS] = {
    LONG_TEXT LONG_TEXT LONG_TEXT "one two three four five", LONG_TEXT LONG_TEXT LONG_TEXT "two of them, not three",
    LONG_TEXT LONG_TEXT LONG_TEXT LONG_TEXT "three", "another text that begins like nothing else " LONG_TEXT LONG_TEXT LONG_TEXT};
typedef struct asker {
    pthread_t thread;
    const sac_model *m;
    sac_session *s;
    int number;
} asker;

static void *ask_round_and_round(void *ctx) {
    asker *a = ctx;
    said *got = malloc(sizeof *got);
    for (int i = 0; i < ROUNDS; i++) {
        pictures p;
        int k = (i * 5 + a->number * 3) % QUESTIONS;
        say(a->m, a->s, about(&p, false, thread_texts[k]), got);
        assert_memory_equal(got, &thread_want[k], sizeof *got);
        if (i % 5 == a->number) sac_session_reset(a->s);
    }
    free(got);
    return NULL;
}

/* Two servers with one folder, each with sessions of several threads; a store so small that blocks come and go. */
static void threads_and_two_servers(void **state) {
    (void)state;
    sac_model *m = open_family(0, 1);
    asker a[2 * THREADS];
    pictures p;
    sac_session *alone = chunked(m, 32, "f32");
    for (int k = 0; k < QUESTIONS; k++) {
        sac_session_reset(alone);
        say(m, alone, about(&p, false, thread_texts[k]), &thread_want[k]);
    }
    size_t one = sizeof(sac_store_block) + sac_kv_cache_block_bytes(&alone->decoder.cache, SAC_STORE_ROWS);
    sac_session_free(alone);
    for (int round = 0; round < 3; round++) {
        const char *dir = new_folder();
        lines l[2] = {{0}, {0}};
        sac_beginnings *b[2];
        for (int k = 0; k < 2; k++) b[k] = open_store(m, (round ? 8 : 2000) * one, dir, (round == 2 ? 6 : 2000) * one, &l[k]);
        for (int i = 0; i < 2 * THREADS; i++) a[i] = (asker){.m = m, .s = join(chunked(m, 32, "f32"), b[i % 2]), .number = i};
        for (int i = 0; i < 2 * THREADS; i++) assert_int_equal(pthread_create(&a[i].thread, NULL, ask_round_and_round, &a[i]), 0);
        for (int i = 0; i < 2 * THREADS; i++) pthread_join(a[i].thread, NULL);
        for (int i = 0; i < 2 * THREADS; i++) sac_session_free(a[i].s);
        for (int k = 0; k < 2; k++) {
            sac_beginnings_report r = report_of(b[k]);
            assert_true(r.n_found > 0 && r.memory_bytes <= (round ? 8 : 2000) * one);
            sac_beginnings_close(b[k]);
            assert_int_equal(l[k].n, 0);
        }
        remove_folder();
    }
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_go_before_parents), cmocka_unit_test(a_long_chain_keeps_its_beginning),
        cmocka_unit_test(a_video_that_was_lost),      cmocka_unit_test(a_store_without_room),
        cmocka_unit_test(damaged_files_are_not_taken), cmocka_unit_test(a_killed_writer),
        cmocka_unit_test(the_folder_has_a_limit),     cmocka_unit_test(a_full_disk),
        cmocka_unit_test(every_family_and_chunk),     cmocka_unit_test(adapters_are_apart),
        cmocka_unit_test(threads_and_two_servers),
    };
    return cmocka_run_group_tests_name("store", tests, open_model, close_model);
}
