#define _GNU_SOURCE
/* Journals: what was written is read, whatever a killed process or a loss of power left behind it. */
#include "test.h"

#include "journal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

static sac_error err;
static char path[64];

static int open_path(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/test_journal_XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static void put(const char *text, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

static size_t file_bytes(void) {
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    fclose(f);
    return (size_t)n;
}

/* Sum of the "n" of all lines, and their texts checked against their places in the file. */
typedef struct sum {
    int64_t n, lines;
} sum;

static sac_status on_line(void *ctx, const journal_line *line, sac_error *e) {
    sum *s = ctx;
    (void)e;
    char text[200];
    int fd = open(path, O_RDONLY);
    assert_true(line->n_bytes < sizeof text);
    assert_int_equal(pread(fd, text, line->n_bytes, (off_t)line->at), line->n_bytes);
    close(fd);
    assert_memory_equal(text, line->text, line->n_bytes);
    s->n += json_integer_value(json_object_get(line->json, "n"));
    assert_int_equal(line->number, ++s->lines);
    return SAC_OK;
}

static sac_status open_journal(journal_file *j, journal_mode mode, sum *s) {
    *s = (sum){0};
    err = (sac_error){0};
    return journal_open(j, path, mode, on_line, s, &err);
}

static void lines_come_back(void **state) {
    (void)state;
    enum { N = 20000 }; /* more than a buffer */
    journal_file j;
    sum s;
    int64_t at, before = 0;
    size_t n;
    assert_ok(open_journal(&j, JOURNAL_WRITE, &s), err);
    for (int i = 0; i < N; i++) {
        json_t *line = json_pack("{s:i, s:s}", "n", i, "text", i % 7 ? "x" : "line\nfeed");
        assert_ok(journal_write(&j, line, 9, &at, &n, &err), err);
        assert_int_equal(at, before);
        before = at + (int64_t)n + 1;
        json_decref(line);
    }
    assert_ok(journal_close(&j, &err), err);
    for (int mode = JOURNAL_WRITE; mode <= JOURNAL_READ; mode++) {
        assert_ok(open_journal(&j, (journal_mode)mode, &s), err);
        assert_int_equal(s.lines, N);
        assert_int_equal(s.n, (int64_t)N * (N - 1) / 2);
        assert_int_equal(j.n_bytes, before);
        assert_ok(journal_close(&j, &err), err);
    }
}

static void torn_ends_are_dropped(void **state) {
    (void)state;
    static const char whole[] = "{\"n\":1}\n{\"n\":20}\n";
    static const char zeros[] = "{\"n\":1}\n{\"n\":20}\n{\"n\"\0\0\0\0\n";
    size_t n = sizeof whole - 1;
    for (size_t cut = 0; cut <= n; cut++) { /* after any byte */
        journal_file j;
        sum s;
        bool first = cut > 7, second = cut == n;
        put(whole, cut);
        assert_ok(open_journal(&j, JOURNAL_READ, &s), err);
        assert_int_equal(file_bytes(), cut);
        assert_ok(journal_close(&j, &err), err);
        assert_ok(open_journal(&j, JOURNAL_WRITE, &s), err);
        assert_int_equal(s.n, 1 * first + 20 * second);
        json_t *line = json_pack("{s:i}", "n", 300);
        assert_ok(journal_write(&j, line, 9, NULL, NULL, &err), err);
        json_decref(line);
        assert_ok(journal_close(&j, &err), err);
        assert_ok(open_journal(&j, JOURNAL_WRITE, &s), err);
        assert_int_equal(s.n, 1 * first + 20 * second + 300);
        assert_ok(journal_close(&j, &err), err);
    }
    journal_file j;
    sum s;
    put(zeros, sizeof zeros - 1); /* the file had its length before its contents */
    assert_ok(open_journal(&j, JOURNAL_WRITE, &s), err);
    assert_int_equal(s.n, 21);
    assert_ok(journal_close(&j, &err), err);
    assert_int_equal(file_bytes(), n);
}

static void a_broken_middle_is_refused(void **state) {
    (void)state;
    static const char *const broken[] = {"{\"n\":1}\nwhat\n{\"n\":3}\n", "{\"n\":1}\n\n{\"n\":3}\n",
                                         "{\"n\":1}\n{\"n\":1,\"n\":2}\n{\"n\":3}\n"};
    for (size_t i = 0; i < 3; i++) {
        journal_file j;
        sum s;
        put(broken[i], strlen(broken[i]));
        assert_int_equal(open_journal(&j, JOURNAL_WRITE, &s), SAC_BAD_FILE);
        assert_non_null(strstr(err.text, ":2: not JSON"));
        assert_ok(journal_close(&j, &err), err);
        assert_int_equal(file_bytes(), strlen(broken[i]));
    }
}

static void one_writer_at_a_time(void **state) {
    (void)state;
    journal_file a, b;
    sum s;
    put("", 0);
    assert_ok(open_journal(&a, JOURNAL_WRITE, &s), err);
    assert_int_equal(open_journal(&b, JOURNAL_WRITE, &s), SAC_IO);
    assert_non_null(strstr(err.text, "another run"));
    journal_close(&b, &err);
    assert_int_equal(open_journal(&b, JOURNAL_READ, &s), SAC_IO);
    journal_close(&b, &err);
    assert_ok(journal_close(&a, &err), err);
    assert_ok(open_journal(&a, JOURNAL_READ, &s), err);
    assert_ok(open_journal(&b, JOURNAL_READ, &s), err); /* readers do not mind each other */
    journal_close(&a, &err);
    journal_close(&b, &err);
}

/* The limit of a file's size stands for a disk that is full in the middle of a line. */
static void a_full_disk(void **state) {
    (void)state;
    journal_file j;
    sum s;
    struct rlimit had, limit;
    put("{\"n\":1}\n", 8);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &had);
    limit = had;
    limit.rlim_cur = 20;
    assert_ok(open_journal(&j, JOURNAL_WRITE, &s), err);
    setrlimit(RLIMIT_FSIZE, &limit);
    json_t *line = json_pack("{s:i, s:s}", "n", 7, "text", "this is longer than what is left");
    sac_status st = journal_write(&j, line, 9, NULL, NULL, &err);
    setrlimit(RLIMIT_FSIZE, &had);
    assert_int_equal(st, SAC_IO);
    assert_non_null(strstr(err.text, "no space left"));
    journal_close(&j, &err);
    assert_int_equal(file_bytes(), 20);
    assert_ok(open_journal(&j, JOURNAL_WRITE, &s), err);
    assert_int_equal(s.n, 1);
    assert_ok(journal_write(&j, line, 9, NULL, NULL, &err), err);
    journal_close(&j, &err);
    assert_ok(open_journal(&j, JOURNAL_READ, &s), err);
    assert_int_equal(s.n, 8);
    journal_close(&j, &err);
    json_decref(line);
}

static bool differ(const char *a, const char *b, char *what) {
    static const char *const ignored[] = {"started", "set.path", NULL};
    json_t *x = json_loads(a, 0, NULL), *y = json_loads(b, 0, NULL);
    bool d = journal_header_differs(x, y, ignored, what, 200);
    json_decref(x);
    json_decref(y);
    return d;
}

static void headers(void **state) {
    (void)state;
    char what[200] = "";
    assert_false(differ("{\"started\": 1, \"set\": {\"path\": \"a\", \"n\": 1}}",
                        "{\"started\": 2, \"set\": {\"path\": \"b\", \"n\": 1}}", what));
    assert_true(differ("{\"set\": {\"n\": 1}}", "{\"set\": {\"n\": 2}}", what));
    assert_string_equal(what, "set.n is 1 there and 2 now");
    assert_true(differ("{\"a\": 1}", "{}", what));
    assert_string_equal(what, "a is 1 there and not given now");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_back),
        cmocka_unit_test(torn_ends_are_dropped),
        cmocka_unit_test(a_broken_middle_is_refused),
        cmocka_unit_test(one_writer_at_a_time),
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(headers),
    };
    return cmocka_run_group_tests(tests, open_path, remove_path);
}
