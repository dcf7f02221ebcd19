#define _GNU_SOURCE
/* What a folder, a file of lines and a tar hold, and what becomes of what is wrong in them. */
#include "test.h"

#include "caption_list.h"
#include "caption_tar.h"
#include "status.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static sac_error err;
static char folder[64];
static caption_input in;
static const caption_shard whole = {.index = 0, .count = 1};

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_caption_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *path_of(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static sac_status list(const char *name, size_t limit) {
    char path[600];
    snprintf(path, sizeof path, "%s", path_of(name));
    char *paths[] = {path};
    caption_input_free(&in);
    err = (sac_error){0};
    sac_status st = caption_input_open(&in, paths, 1, NULL, &err);
    return st == SAC_OK ? caption_input_list(&in, &whole, limit, &err) : st;
}

/* ids of the first source; "!" before those that are errors. */
static void assert_items(const char *want) {
    char got[4000] = "";
    for (size_t i = 0; i < in.sources[0].n_items; i++) {
        const caption_item *item = &in.sources[0].items[i];
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s%s", i ? " " : "", item->error ? "!" : "",
                 item->id);
    }
    assert_string_equal(got, want);
}

static void a_folder(void **state) {
    (void)state;
    mkdir(path_of("f"), 0777);
    mkdir(path_of("f/b"), 0777);
    mkdir(path_of("f/.hidden"), 0777);
    put("f/b/2.PNG", "", 0);
    put("f/b-1.jpg", "x", 1);
    put("f/a.mp4", "", 0);
    put("f/a.txt", "", 0);
    put("f/.hidden/x.jpg", "", 0);
    put("f/.y.jpg", "", 0);
    put("f/caf\xc3\xa9.webp", "", 0);
    put("f/no\xff.gif", "", 0);
    assert_int_equal(symlink("a.mp4", path_of("f/link.mkv")), 0);
    assert_int_equal(symlink("..", path_of("f/circle")), 0);
    assert_ok(list("f", 0), err);
    assert_int_equal(in.kind, CAPTION_FOLDER);
    assert_items("a.mp4 b-1.jpg b/2.PNG caf\xc3\xa9.webp link.mkv !no\\xff.gif");
    uint64_t ids = in.sources[0].ids_hash, content = in.sources[0].content_hash;
    put("f/b-1.jpg", "xy", 2); /* the same names, other contents */
    assert_ok(list("f/", 0), err);
    assert_true(in.sources[0].ids_hash == ids && in.sources[0].content_hash != content);
    assert_ok(list("f", 2), err);
    assert_items("a.mp4 b-1.jpg");
    mkdir(path_of("empty"), 0777);
    assert_int_equal(list("empty", 0), SAC_BAD_FILE);
    assert_int_equal(list("absent", 0), SAC_NOT_FOUND);
}

static void lines(void **state) {
    (void)state;
    static const char text[] = "\xef\xbb\xbf{\"image\": \"a.jpg\"}\r\n"
                               "\n"
                               "{\"id\": \"two\", \"video\": \"b.mp4\", \"prompt\": \"What?\"}\n"
                               "what is this\n"
                               "{\"caption\": 1}\n"
                               "{\"image\": \"a.jpg\"}\n"
                               "{\"id\": \"../../etc/passwd\", \"image\": \"c.jpg\"}\n"
                               "{\"image\": \"../../data/d.jpg\"}\n"
                               "{\"id\": 7, \"image\": [\"e.jpg\", \"f.jpg\"]}\n"
                               "[1]\n"
                               "{\"id\": \"last\", \"frames\": \"x\"}";
    put("m.jsonl", text, sizeof text - 1);
    assert_ok(list("m.jsonl", 0), err);
    assert_int_equal(in.kind, CAPTION_MANIFEST);
    assert_items(
        "a.jpg two !m.jsonl:4 !m.jsonl:5 !a.jpg\\x0a4 !../../etc/passwd data/d.jpg e.jpg !m.jsonl:10 last");
    const caption_item *two = &in.sources[0].items[1], *last = &in.sources[0].items[9];
    assert_memory_equal(text + two->at, "{\"id\": \"two\"", 12);
    assert_int_equal(text[two->at + two->n_bytes - 1], '}');
    assert_int_equal((size_t)(last->at + last->n_bytes), sizeof text - 1);
    assert_non_null(strstr(in.sources[0].items[4].error, "item 0"));
    put("b.jsonl", "{\"custom_id\": \"r1\", \"body\": {}}\n", 33);
    assert_ok(list("b.jsonl", 0), err);
    assert_int_equal(in.kind, CAPTION_REQUESTS);
    put("e.jsonl", "\n\n", 2);
    assert_int_equal(list("e.jsonl", 0), SAC_BAD_FILE);
}

/* Rows as RFC 4180 has them: quotes, line ends and separators within fields, \r\n or \n between records. */
static void rows(void **state) {
    (void)state;
    static const char text[] = "\xef\xbb\xbfid,image,prompt\r\n"
                               "one,a.jpg,What?\r\n"
                               "\r\n"
                               ",\"b, \"\"c\"\".jpg\",\"two\nlines\"\n"
                               "three,d.jpg\n"
                               "four,,x\n"
                               "five,e\"e.jpg,\n"
                               "six,\"f.jpg\"f,\n"
                               "one,g.jpg,\n"
                               "\"../x\",h.jpg,\n"
                               "nine,\xff.jpg,\n"
                               "ten,\"open.jpg,\n"
                               "eleven,i.jpg,\n";
    put("m.csv", text, sizeof text - 1);
    assert_ok(list("m.csv", 0), err);
    assert_int_equal(in.kind, CAPTION_CSV);
    assert_items("one b, \"c\".jpg !m.csv:5 !m.csv:6 !m.csv:7 !m.csv:8 !one\\x0a6 !../x !m.csv:11 !m.csv:12");
    const caption_item *second = &in.sources[0].items[1];
    assert_memory_equal(text + second->at, ",\"b, ", 5);
    assert_memory_equal(text + second->at + second->n_bytes - 6, "lines\"\n", 7);
    static const char *const errors[] = {"2 fields where the header has 3", "names no file",
                                         "a quote within a field", "behind the closing quote"};
    for (size_t i = 0; i < 4; i++) assert_non_null(strstr(in.sources[0].items[2 + i].error, errors[i]));
    assert_non_null(strstr(in.sources[0].items[9].error, "not closed"));
    put("m.tsv", "video\tnote\nv.mp4\t\nw\tn\n", 22);
    assert_ok(list("m.tsv", 0), err);
    assert_items("v.mp4 w");
    put("l.txt", "a.jpg\r\n\n  b.mp4 \n../c.png\na.jpg", 31);
    assert_ok(list("l.txt", 0), err);
    assert_int_equal(in.kind, CAPTION_LIST);
    assert_items("a.jpg   b.mp4 c.png !a.jpg\\x0a3");
    static const struct {
        const char *text, *needle;
        sac_status status;
    } bad[] = {{"\n\n", "holds no line", SAC_BAD_FILE},
               {"image,x\n", "no row under its header", SAC_BAD_FILE},
               {"a,b\n1,2\n", "which column", SAC_BAD_FILE},
               {"image,image\nx,y\n", "two columns", SAC_BAD_FILE},
               {"\"image\nx\n", "its header: a quote", SAC_BAD_FILE},
               {"image,\"x\"\"", "its header: a quote that is not closed", SAC_BAD_FILE}};
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        put("e.csv", bad[i].text, strlen(bad[i].text));
        assert_int_equal(list("e.csv", 0), bad[i].status);
        if (!strstr(err.text, bad[i].needle)) fail_msg("'%s' is not in '%s'", bad[i].needle, err.text);
    }
    /* a field costs more memory than its bytes */
    static char many[20000] = "image,x\n";
    for (size_t i = 8; i + 1 < sizeof many; i++) many[i] = ',';
    put("many.csv", many, sizeof many - 1);
    assert_ok(list("many.csv", 0), err);
    assert_items("!many.csv:2");
    assert_non_null(strstr(in.sources[0].items[0].error, "more than 4096 fields"));
}

static void names_and_patterns(void **state) {
    (void)state;
    char a[600], pattern[600], none[600], notes[600];
    mkdir(path_of("p"), 0777);
    put("p/a.jpg", "x", 1);
    put("p/b.png", "x", 1);
    put("p/c.txt", "x", 1);
    put("p/[d].png", "x", 1);
    snprintf(a, sizeof a, "%s", path_of("p/a.jpg"));
    snprintf(pattern, sizeof pattern, "%s", path_of("p/*"));
    snprintf(none, sizeof none, "%s", path_of("p/*.gif"));
    snprintf(notes, sizeof notes, "%s", path_of("p/c.txt"));
    caption_input_free(&in);
    assert_ok(caption_input_open(&in, (char *[]){a, pattern}, 2, NULL, &err), err);
    assert_int_equal(in.kind, CAPTION_FILES);
    assert_ok(caption_input_list(&in, &whole, 0, &err), err);
    assert_int_equal(in.sources[0].n_items, 3);
    assert_string_equal(in.sources[0].items[0].id, a + 1);
    assert_string_equal(in.sources[0].items[1].path, path_of("p/[d].png"));
    assert_int_equal(json_integer_value(json_object_get(in.sources[0].skipped, "txt")), 1);
    static const char *const needles[] = {"no file has such a name", "is read by saccade-parquet",
                                          "are expected, found", "only a CSV file"};
    char parquet[] = "x.parquet";
    char *const words[][2] = {{none, a}, {parquet, a}, {a, notes}, {a, a}};
    for (int i = 0; i < 4; i++) {
        caption_input_free(&in);
        assert_int_not_equal(caption_input_open(&in, (char **)words[i], 2, i == 3 ? "x" : NULL, &err),
                             SAC_OK);
        if (!strstr(err.text, needles[i])) fail_msg("'%s' is not in '%s'", needles[i], err.text);
    }
    snprintf(pattern, sizeof pattern, "%s", path_of("p/[[]d].png"));
    caption_input_free(&in);
    assert_ok(caption_input_open(&in, (char *[]){pattern}, 1, NULL, &err), err);
    assert_ok(caption_input_list(&in, &whole, 0, &err), err);
    assert_int_equal(in.sources[0].n_items, 1);
}

/* ---------------------------------------------------------------- tars */

typedef struct member {
    const char *name;
    size_t n;
    int type;
} member;

static void make_tar(const char *name, const member *members, bool gzip) {
    struct archive *a = archive_write_new();
    if (gzip) archive_write_add_filter_gzip(a);
    archive_write_set_format_pax_restricted(a);
    assert_int_equal(archive_write_open_filename(a, path_of(name)), ARCHIVE_OK);
    for (; members->name; members++) {
        struct archive_entry *e = archive_entry_new();
        archive_entry_set_pathname(e, members->name);
        archive_entry_set_filetype(e, members->type ? (unsigned)members->type : AE_IFREG);
        archive_entry_set_size(e, (la_int64_t)members->n);
        archive_entry_set_perm(e, 0644);
        if (members->type == AE_IFLNK) archive_entry_set_symlink(e, "/etc/passwd");
        assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
        for (size_t i = 0; i < members->n; i++) archive_write_data(a, &(char){(char)i}, 1);
        archive_entry_free(e);
    }
    archive_write_close(a);
    archive_write_free(a);
}

static const member shard[] = {
    {"a.txt", 5, 0},   {"a.jpg", 700, 0},         {"a.json", 2, 0},   {"d/", 0, AE_IFDIR},
    {"d/b.cls", 1, 0}, {"d/b.png", 1000, 0},      {"d/c.txt", 3, 0},  {"e.mp4", 10, 0},
    {"e.jpg", 10, 0},  {"link.jpg", 0, AE_IFLNK}, {"../x.jpg", 1, 0}, {"/y.jpg", 1, 0},
    {"a.jpg", 3, 0},   {"noending", 9, 0},        {"./z.webp", 4, 0}, {NULL, 0, 0}};

static void a_tar(void **state) {
    (void)state;
    for (int gzip = 0; gzip < 2; gzip++) {
        const char *name = gzip ? "s.tar.gz" : "s.tar";
        make_tar(name, shard, gzip);
        assert_ok(list(name, 0), err);
        assert_int_equal(in.kind, CAPTION_TAR);
        assert_items("a d/b !d/c e !../x !/y !a\\x0a6 z");
        const caption_item *items = in.sources[0].items;
        int64_t want[] = {1, 5, 6, 7};
        for (int i = 0; i < 4; i++) assert_int_equal(items[i].at, want[i]);
        caption_tar *t;
        caption_member m;
        bool more = true;
        uint8_t *bytes;
        size_t n;
        assert_ok(caption_tar_open(&t, in.sources[0].path, &err), err);
        for (int i = 0; i < 6 && more; i++) assert_ok(caption_tar_next(t, &m, &more, &err), err);
        assert_int_equal(m.number, 5);
        assert_ok(caption_tar_read(t, &bytes, &n, &err), err);
        assert_int_equal(n, 1000);
        for (size_t i = 0; i < n; i++) assert_int_equal(bytes[i], (uint8_t)i);
        free(bytes);
        caption_tar_close(t);
    }
}

/* Cut at any place, and with any byte turned: items or an error, and always an end. */
static void damaged_tars(void **state) {
    (void)state;
    static uint8_t bytes[1 << 16], damaged[1 << 16];
    make_tar("s.tar", shard, false);
    FILE *f = fopen(path_of("s.tar"), "rb");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t cut = 0; cut < n; cut += 97) {
        put("cut.tar", bytes, cut);
        assert_ok(list("cut.tar", 0), err);
        assert_true(in.sources[0].n_items <= 9);
    }
    uint64_t seed = 5;
    for (int i = 0; i < 300; i++) {
        memcpy(damaged, bytes, n);
        for (int k = 0; k < 4; k++) damaged[test_rand(&seed) % n] = (uint8_t)test_rand(&seed);
        put("bad.tar", damaged, n);
        assert_ok(list("bad.tar", 0), err);
    }
    put("text.tar", "this is no tar, but it is a text of some length", 47);
    assert_ok(list("text.tar", 0), err);
    assert_items("!text.tar");
}

/* A header that promises more than there is, or than anybody wants. */
static void sizes_that_lie(void **state) {
    (void)state;
    static uint8_t bytes[1 << 16];
    static const member one[] = {{"a.jpg", 700, 0}, {NULL, 0, 0}};
    static const char *const sizes[] = {"00000001000", "77777777777", "00000100000"};
    make_tar("s.tar", one, false);
    FILE *f = fopen(path_of("s.tar"), "rb");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (int i = 0; i < 3; i++) {
        unsigned sum = 0;
        memcpy(bytes + 124, sizes[i], 11);
        memset(bytes + 148, ' ', 8);
        for (int k = 0; k < 512; k++) sum += bytes[k];
        snprintf((char *)bytes + 148, 8, "%06o", sum);
        put("lie.tar", bytes, i == 2 ? 2048 : n);
        assert_ok(list("lie.tar", 0), err);
        caption_tar *t;
        caption_member m;
        bool more;
        uint8_t *data;
        size_t n_data;
        assert_ok(caption_tar_open(&t, in.sources[0].path, &err), err);
        assert_ok(caption_tar_next(t, &m, &more, &err), err);
        sac_status st = caption_tar_read(t, &data, &n_data, &err);
        assert_int_equal(st, i == 0 ? SAC_OK : SAC_BAD_FILE);
        if (st == SAC_OK) free(data);
        caption_tar_close(t);
    }
}

static void names_of_shards(void **state) {
    (void)state;
    char *paths[] = {"x-{008..011}.tar", "y.tgz"}, *twice[] = {"a/x.tar", "b/x.tar"},
         *bad[] = {"x-{3..1}.tar"}, *mixed[] = {"x.tar", "y.jpg"};
    caption_input_free(&in);
    assert_ok(caption_input_open(&in, paths, 2, NULL, &err), err);
    assert_int_equal(in.n_sources, 5);
    assert_string_equal(in.sources[0].name, "x-008.tar");
    assert_string_equal(in.sources[3].name, "x-011.tar");
    caption_input_free(&in);
    assert_int_equal(caption_input_open(&in, twice, 2, NULL, &err), SAC_BAD_ARGUMENT);
    caption_input_free(&in);
    assert_int_equal(caption_input_open(&in, bad, 1, NULL, &err), SAC_BAD_ARGUMENT);
    caption_input_free(&in);
    assert_int_equal(caption_input_open(&in, mixed, 2, NULL, &err), SAC_BAD_ARGUMENT);
}

/* Every item is in one shard, and shards are about equal. */
static void shards(void **state) {
    (void)state;
    enum { N = 7, ITEMS = 7000 };
    int n[N] = {0};
    for (int i = 0; i < ITEMS; i++) {
        char id[40];
        int owners = 0;
        snprintf(id, sizeof id, "folder/%06d.jpg", i);
        for (int k = 0; k < N; k++) {
            caption_shard s = {.index = k, .count = N};
            bool mine = caption_is_mine(&s, false, 0, id);
            owners += mine;
            n[k] += mine;
            assert_int_equal(caption_is_mine(&s, true, (size_t)i, id), i % N == k);
        }
        assert_int_equal(owners, 1);
    }
    for (int k = 0; k < N; k++) assert_in_range(n[k], 850, 1150); /* 1,000 and five standard deviations */
}

static int end(void **state) {
    caption_input_free(&in);
    return remove_folder(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder),       cmocka_unit_test(lines),
        cmocka_unit_test(rows),           cmocka_unit_test(names_and_patterns),
        cmocka_unit_test(a_tar),          cmocka_unit_test(damaged_tars),
        cmocka_unit_test(sizes_that_lie), cmocka_unit_test(names_of_shards),
        cmocka_unit_test(shards),
    };
    return cmocka_run_group_tests(tests, make_folder, end);
}
