/* Parts of the server that need no server: contexts of traces, events of blocks as MessagePack, bytes on their way, the memory of
 * methods that a request chooses. */
#include "byte_buffer.h"
#include "kv_queue.h"
#include "msgpack.h"
#include "slot_methods.h"
#include "trace_context.h"

#include "test.h"

/* W3C's examples, and what is none. */
static void traces_that_go_on(void **state) {
    (void)state;
#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
    static const struct {
        const char *header;
        bool has_parent, recorded;
    } cases[] = {{"00-" TRACE "-" PARENT "-01", true, true},
                 {"00-" TRACE "-" PARENT "-00", true, false},
                 {"00-" TRACE "-" PARENT "-fe", true, false},
                 {"cc-" TRACE "-" PARENT "-01-what-comes", true, true},
                 {"00-" TRACE "-" PARENT "-01-what-comes", false, true},
                 {"cc-" TRACE "-" PARENT "-01x", false, true},
                 {"ff-" TRACE "-" PARENT "-01", false, true},
                 {"00-" TRACE "-" PARENT "-1", false, true},
                 {"00-" TRACE "-0000000000000000-01", false, true},
                 {"00-00000000000000000000000000000000-" PARENT "-01", false, true},
                 {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", false, true},
                 {"", false, true},
                 {NULL, false, true}};
    char longest[258];
    memset(longest, 'a', sizeof longest);
    longest[257] = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        serve_trace_context c;
        serve_trace_context_read(&c, cases[i].header, "a=b");
        assert_int_equal(c.has_parent, cases[i].has_parent);
        assert_int_equal(c.recorded, cases[i].recorded);
        assert_string_equal(c.state, c.has_parent ? "a=b" : "");
        if (c.has_parent) assert_int_equal(c.trace[0], 0x4b);
        if (c.has_parent) assert_int_equal(c.parent[7], 0xb7);
        serve_trace_context_read(&c, cases[i].header, longest);
        assert_string_equal(c.state, "");
        serve_trace_context_read(&c, cases[i].header, "a=\n");
        assert_string_equal(c.state, "");
    }
}

/* Events of blocks in order; where too many wait, one that says that all is cleared stands for all of them. */
static void events_that_wait(void **state) {
    (void)state;
    serve_kv_queue q;
    int32_t ids[SERVE_KV_BLOCK] = {7};
    const uint64_t media[] = {1, UINT64_MAX};
    serve_kv_queue_init(&q, 3);
    for (int round = 0; round < 2; round++) {
        for (uint8_t i = 1; i <= 3; i++) {
            sac_block_event e = {.key = {[31] = i}, .ids = ids, .media = media, .n_media = 2, .is_removed = i == 2};
            assert_int_equal(serve_kv_queue_add(&q, serve_kv_event_of(&e)), 0);
        }
        size_t n = 2;
        serve_kv_event *first = serve_kv_queue_take(&q, &n);
        assert_int_equal(n, 2);
        assert_true(first->hash == 1 && first->kind == SERVE_KV_STORED && first->media[1] == UINT64_MAX && first->ids[0] == 7);
        assert_true(first->next->hash == 2 && first->next->kind == SERVE_KV_REMOVED && !first->next->next);
        serve_kv_events_free(first);
        assert_int_equal(q.n, 1);
        for (uint8_t i = 4; i <= 5; i++)
            serve_kv_queue_add(&q, serve_kv_event_of(&(sac_block_event){.key = {[31] = i}, .is_removed = true}));
        assert_int_equal(serve_kv_queue_add(&q, serve_kv_event_of(&(sac_block_event){.is_removed = true})), 4);
        assert_int_equal(serve_kv_queue_add(&q, serve_kv_event_of(&(sac_block_event){.key = {[24] = 1}, .is_removed = true})), 0);
        n = 64;
        first = serve_kv_queue_take(&q, &n);
        assert_int_equal(n, 2);
        assert_int_equal(first->kind, SERVE_KV_CLEARED);
        assert_true(first->next->hash == (uint64_t)1 << 56);
        serve_kv_events_free(first);
        assert_int_equal(serve_kv_queue_add(&q, NULL), 1); /* there was no memory for it */
        n = 64;
        first = serve_kv_queue_take(&q, &n);
        assert_true(n == 1 && first->kind == SERVE_KV_CLEARED);
        serve_kv_events_free(first);
        n = 64;
        assert_null(serve_kv_queue_take(&q, &n));
        assert_int_equal(n, 0);
    }
    serve_kv_queue_free(&q);
}

/* The specification's forms, each number and text at the borders between them. */
static void values_as_messagepack(void **state) {
    (void)state;
    static const struct {
        uint64_t n;
        const char *bytes;
        size_t n_bytes;
    } numbers[] = {{0, "\0", 1},
                   {127, "\x7f", 1},
                   {128, "\xcc\x80", 2},
                   {255, "\xcc\xff", 2},
                   {256, "\xcd\x01\x00", 3},
                   {65536, "\xce\x00\x01\x00\x00", 5},
                   {UINT64_MAX, "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9}};
    char text[70000];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        serve_buffer b = {0};
        msgpack_unsigned(&b, numbers[i].n);
        assert_int_equal(b.n, numbers[i].n_bytes);
        assert_memory_equal(b.data, numbers[i].bytes, b.n);
        serve_buffer_free(&b);
    }
    static const struct {
        size_t n;
        const char *head;
        size_t n_head;
    } texts[] = {{0, "\xa0", 1}, {31, "\xbf", 1}, {32, "\xd9\x20", 2}, {255, "\xd9\xff", 2}, {256, "\xda\x01\x00", 3}, {65536, "\xdb\x00\x01\x00\x00", 5}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        serve_buffer b = {0};
        memset(text, 'a', texts[i].n);
        text[texts[i].n] = 0;
        msgpack_text(&b, text);
        assert_int_equal(b.n, texts[i].n + texts[i].n_head);
        assert_memory_equal(b.data, texts[i].head, texts[i].n_head);
        serve_buffer_free(&b);
    }
    serve_buffer b = {0};
    msgpack_array(&b, 15);
    msgpack_array(&b, 16);
    msgpack_array(&b, 65536);
    msgpack_map(&b, 15);
    msgpack_map(&b, 16);
    msgpack_integer(&b, -1);
    msgpack_integer(&b, -32);
    msgpack_integer(&b, -33);
    msgpack_integer(&b, 5);
    msgpack_nil(&b);
    msgpack_real(&b, 1.5);
    static const char wanted[] = "\x9f\xdc\x00\x10\xdd\x00\x01\x00\x00\x8f\xde\x00\x10\xff\xe0\xd3\xff\xff\xff\xff\xff\xff\xff\xdf\x05\xc0"
                                 "\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00";
    assert_int_equal(b.n, sizeof wanted - 1);
    assert_memory_equal(b.data, wanted, b.n);
    serve_buffer_free(&b);
}

/* Bytes that go in at one end and out at the other, as a stream's: in order, and without the block growing for what is gone. */
static void bytes_that_pass_through(void **state) {
    (void)state;
    serve_buffer b = {0};
    uint64_t seed = 3;
    size_t n_in = 0, n_out = 0;
    for (int i = 0; i < 200000; i++) {
        char bytes[64];
        const size_t n = test_rand(&seed) % 64, drop = test_rand(&seed) % 80;
        for (size_t k = 0; k < n; k++) bytes[k] = (char)((n_in + k) % 251);
        serve_buffer_add(&b, bytes, n);
        n_in += n;
        const size_t gone = drop < b.n ? drop : b.n;
        for (size_t k = 0; k < gone; k++) assert_int_equal(b.data[k], (char)((n_out + k) % 251));
        serve_buffer_drop(&b, gone);
        n_out += gone;
        assert_int_equal(b.n, n_in - n_out);
    }
    assert_true(!b.failed && b.room + b.skipped <= 1 << 16);
    serve_buffer_free(&b);
    assert_null(b.data);
}

/* A slot holds a quarter more than planned where requests may choose, here and on a device. */
static void methods_that_fit_a_slot(void **state) {
    (void)state;
    serve_config config = {.request_methods = true};
    serve_server *s = calloc(1, sizeof *s);
    serve_problem p = {0};
    s->config = &config;
    serve_methods_room(s, &(sac_memory_report){.total_bytes = 1000, .device_bytes = 4000});
    assert_true(serve_methods_fit(s, &(sac_memory_report){.total_bytes = 1250, .device_bytes = 5000}, &p));
    assert_int_equal(p.status, 0);
    assert_false(serve_methods_fit(s, &(sac_memory_report){.total_bytes = 1251}, &p));
    assert_int_equal(p.status, 413);
    assert_null(strstr(p.message, "device"));
    assert_false(serve_methods_fit(s, &(sac_memory_report){.total_bytes = 900, .device_bytes = 5001}, &p));
    assert_int_equal(p.status, 413);
    assert_string_equal(p.code, "methods_too_large");
    assert_non_null(strstr(p.message, "5001 bytes of the device's memory, a slot has 5000"));
    config.request_methods = false;
    serve_methods_room(s, &(sac_memory_report){.total_bytes = 1000, .device_bytes = 4000});
    assert_false(serve_methods_fit(s, &(sac_memory_report){.total_bytes = 1000, .device_bytes = 4001}, &p));
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_that_go_on),
        cmocka_unit_test(events_that_wait),
        cmocka_unit_test(values_as_messagepack),
        cmocka_unit_test(bytes_that_pass_through),
        cmocka_unit_test(methods_that_fit_a_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
