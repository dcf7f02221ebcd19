#define _GNU_SOURCE
/* Records of shards: what is there is found again, and a merge says what is missing, doubled or of another
 * job. */
#include "hash.h"
#include "test.h"

#include "caption_records.h"
#include "caption_shard.h"

#include <sys/stat.h>
#include <unistd.h>

enum { SHARDS = 3, ITEMS = 20 };

static sac_error err;
static char folder[64];
static caption_input in;
static caption_source source = {.path = "m.jsonl", .name = "m.jsonl"};

static int make_input(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_records_XXXXXX");
    for (int i = 0; i < ITEMS; i++) {
        char id[20];
        snprintf(id, sizeof id, "item%d", i);
        if (caption_add(&source, id, strlen(id), 0, 0, &err) != SAC_OK) return -1;
        uint64_t h = sac_hash_quick(0, id, strlen(id) + 1);
        source.ids_hash = sac_hash_quick(source.ids_hash, &h, sizeof h);
    }
    source.listed = true;
    in = (caption_input){.kind = CAPTION_MANIFEST, .sources = &source, .n_sources = 1};
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_all(void **state) {
    char command[100];
    (void)state;
    for (size_t i = 0; i < source.n_items; i++) free(source.items[i].id);
    free(source.items);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *shard_folder(int i, const char *file) {
    static char path[300];
    char name[60];
    caption_shard_folder(&(caption_shard){.index = i, .count = SHARDS}, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s%s%s", folder, name, file ? "/" : "", file ? file : "");
    return path;
}

static json_t *header_of(int i, const char *ask) {
    return json_pack("{s:i, s:s, s:s, s:o, s:b, s:[i, i], s:s}", "saccade_caption", CAPTION_FORMAT, "started",
                     "now", "input", "manifest", "sources", caption_input_json(&in), "by_source", 0, "shard",
                     i, SHARDS, "ask", ask);
}

static json_t *record_of(size_t i, bool good) {
    return good ? json_pack("{s:i, s:I, s:s, s:s}", "source", 0, "index", (json_int_t)i, "id",
                            source.items[i].id, "caption", "x")
                : json_pack("{s:i, s:I, s:s, s:{s:s}}", "source", 0, "index", (json_int_t)i, "id",
                            source.items[i].id, "error", "status", "BAD_FILE");
}

/* Opens a shard's records and does at most n of its items. */
static sac_status do_shard(int i, const char *ask, size_t n, bool good, bool retry, caption_records *r) {
    caption_shard shard = {.index = i, .count = SHARDS};
    mkdir(shard_folder(i, NULL), 0777);
    sac_status st =
        caption_records_open(r, shard_folder(i, NULL), header_of(i, ask), &in, &shard, retry, &err);
    for (size_t k = 0; st == SAC_OK && k < ITEMS && n; k++) {
        if (!caption_is_mine(&shard, false, 0, source.items[k].id) || r->places[0][k].state) continue;
        json_t *record = record_of(k, good);
        st = caption_records_add(r, 0, k, record, 0, &err);
        json_decref(record);
        n--;
    }
    return st;
}

static void finish_shard(int i, const char *ask, size_t n, bool good, bool retry) {
    caption_records r;
    assert_ok(do_shard(i, ask, n, good, retry, &r), err);
    assert_ok(caption_records_close(&r, &err), err);
}

static void start_over(void) {
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s && mkdir %s", folder, folder);
    assert_int_equal(system(command), 0);
}

static void all_shards(void) {
    start_over();
    for (int i = 0; i < SHARDS; i++) finish_shard(i, "a", ITEMS, true, false);
}

static void assert_not_merged(sac_status want, const char *needle) {
    caption_records r;
    sac_error own;
    assert_int_equal(caption_records_merge(&r, folder, &err), want);
    if (!strstr(err.text, needle)) fail_msg("'%s' is not in '%s'", needle, err.text);
    caption_records_close(&r, &own);
}

static void append(int shard, const char *line) {
    FILE *f = fopen(shard_folder(shard, "journal.jsonl"), "ab");
    fputs(line, f);
    fclose(f);
}

static void whole_jobs_are_merged(void **state) {
    (void)state;
    caption_records r;
    all_shards();
    assert_ok(caption_records_merge(&r, folder, &err), err);
    assert_int_equal(r.n_captions, ITEMS);
    for (size_t i = 0; i < ITEMS; i++) {
        char *text;
        size_t n;
        assert_ok(caption_records_read(&r, 0, i, &text, &n, &err), err);
        json_t *json = json_loadb(text, n, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(json, "id")), source.items[i].id);
        json_decref(json);
        free(text);
    }
    caption_records_close(&r, &err);
}

static void resuming(void **state) {
    (void)state;
    caption_records r;
    start_over();
    finish_shard(0, "a", 2, true, false);
    append(0, "{\"source\":0,\"ind"); /* torn */
    assert_ok(do_shard(0, "a", 0, true, false, &r), err);
    assert_int_equal(r.n_captions, 2);
    caption_records_close(&r, &err);
    finish_shard(0, "a", 1, false, false);
    assert_ok(do_shard(0, "a", 0, true, false, &r), err);
    assert_true(r.n_captions == 2 && r.n_errors == 1);
    caption_records_close(&r, &err);
    finish_shard(0, "a", 1, true, true); /* the error once more, with success */
    assert_ok(do_shard(0, "a", 0, true, false, &r), err);
    assert_true(r.n_captions == 3 && r.n_errors == 0);
    caption_records_close(&r, &err);
    assert_int_equal(do_shard(0, "b", 0, true, false, &r), SAC_BAD_CONFIG);
    assert_non_null(strstr(err.text, "ask is \"a\" there and \"b\" now"));
    caption_records_close(&r, &err);
    append(0, "{\"source\":0,\"index\":0,\"id\":\"item1\",\"caption\":\"x\"}\n");
    assert_int_equal(do_shard(0, "a", 0, true, false, &r), SAC_BAD_FILE);
    caption_records_close(&r, &err);
}

/* An item that came in before the others moves them; the caption of one that changed is kept aside until that is back. */
static void listed_anew(void **state) {
    (void)state;
    caption_records r;
    start_over();
    finish_shard(0, "a", 2, true, false);
    finish_shard(0, "a", 1, false, false);
    caption_item first = source.items[0];
    size_t n = source.n_items, left = 0;
    source.items = realloc(source.items, (n + 1) * sizeof *source.items);
    memmove(source.items + 1, source.items, n * sizeof *source.items);
    source.items[0] = (caption_item){.id = "a new one"};
    source.n_items++;
    source.ids_hash++;
    for (int again = 0; again < 2; again++) {
        assert_ok(do_shard(0, "a", 0, true, false, &r), err);
        assert_true(r.n_captions == 2 && r.n_errors == 1);
        for (size_t i = left = 0; i < source.n_items; i++) {
            size_t bytes;
            char *text;
            if (!r.places[0][i].state) continue;
            assert_ok(caption_records_read(&r, 0, i, &text, &bytes, &err), err);
            json_t *json = json_loadb(text, bytes, 0, NULL);
            assert_string_equal(json_string_value(json_object_get(json, "id")), source.items[i].id);
            assert_int_equal(json_integer_value(json_object_get(json, "index")), i);
            left = i;
            json_decref(json);
            free(text);
        }
        caption_records_close(&r, &err);
    }
    source.items[left].seen++; /* the one that failed is another now: it is due again */
    source.ids_hash++;
    assert_ok(do_shard(0, "a", 0, true, false, &r), err);
    assert_true(r.n_captions == 2 && r.n_errors == 0);
    caption_records_close(&r, &err);
    for (size_t i = 0; i < source.n_items; i++) source.items[i].seen++; /* those with captions are others */
    source.ids_hash++;
    for (int again = 0; again < 2; again++) {
        assert_ok(do_shard(0, "a", 0, true, false, &r), err);
        assert_true(r.n_captions == 0 && r.n_away == 2);
        caption_records_close(&r, &err);
    }
    for (size_t i = 0; i < source.n_items; i++) source.items[i].seen--;
    source.ids_hash++;
    assert_ok(do_shard(0, "a", 0, true, false, &r), err);
    assert_true(r.n_captions == 2 && r.n_away == 0);
    caption_records_close(&r, &err);
    memmove(source.items, source.items + 1, n * sizeof *source.items);
    source.n_items = n;
    source.ids_hash -= 4;
    for (size_t i = 0; i < n; i++) source.items[i].seen = first.seen;
}

static void what_is_wrong_is_told(void **state) {
    (void)state;
    char command[300];
    start_over();
    assert_not_merged(SAC_NOT_FOUND, "no shards");
    finish_shard(0, "a", ITEMS, true, false);
    assert_not_merged(SAC_BAD_FILE, "never begun, of 3: 1-2");
    finish_shard(2, "a", ITEMS, true, false);
    assert_not_merged(SAC_BAD_FILE, "never begun, of 3: 1");
    finish_shard(1, "a", 2, true, false);
    assert_not_merged(SAC_BAD_FILE, "have no record yet");
    finish_shard(1, "a", ITEMS, true, false);
    append(1, "{\"source\":0,\"index\":");
    caption_records r;
    assert_ok(caption_records_merge(&r, folder, &err), err); /* a torn end is nobody's record */
    caption_records_close(&r, &err);

    all_shards();
    caption_shard second = {.index = 1, .count = SHARDS};
    size_t of_second = 0;
    while (!caption_is_mine(&second, false, 0, source.items[of_second].id)) of_second++;
    json_t *record = record_of(of_second, true);
    char *line = json_dumps(record, JSON_COMPACT), text[400];
    snprintf(text, sizeof text, "%s\n", line);
    append(1, text);
    assert_not_merged(SAC_BAD_FILE, "a second record");
    all_shards();
    append(0, text);
    assert_not_merged(SAC_BAD_FILE, "an item of another shard");
    free(line);
    json_decref(record);

    all_shards();
    append(1, "{\"source\":0,\"index\":20,\"id\":\"item20\",\"caption\":\"x\"}\n");
    assert_not_merged(SAC_BAD_FILE, "not the record of an item");
    start_over();
    for (int i = 0; i < SHARDS; i++) finish_shard(i, i == 2 ? "b" : "a", ITEMS, true, false);
    assert_not_merged(SAC_BAD_CONFIG, "another job than shard 0: ask is");

    all_shards(); /* an id that was not listed, of the right shard */
    snprintf(command, sizeof command, "sed -i 's/\"id\":\"%s\"/\"id\":\"other%%d\"/' %s",
             source.items[of_second].id, shard_folder(1, "journal.jsonl"));
    char name[20], final[400];
    for (int k = 0;; k++) {
        snprintf(name, sizeof name, "other%d", k);
        if (!caption_is_mine(&second, false, 0, name)) continue;
        snprintf(final, sizeof final, "sed -i 's/\"id\":\"%s\"/\"id\":\"other%d\"/' %s",
                 source.items[of_second].id, k, shard_folder(1, "journal.jsonl"));
        break;
    }
    assert_int_equal(system(final), 0);
    assert_not_merged(SAC_BAD_FILE, "are not those that were listed");

    all_shards();
    snprintf(final, sizeof final, "cp -r %s %s/shard-00000-of-00005", shard_folder(0, NULL), folder);
    assert_int_equal(system(final), 0);
    assert_not_merged(SAC_BAD_CONFIG, "holds shards of");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_jobs_are_merged), cmocka_unit_test(resuming),
                                       cmocka_unit_test(listed_anew),
                                       cmocka_unit_test(what_is_wrong_is_told)};
    return cmocka_run_group_tests(tests, make_input, remove_all);
}
