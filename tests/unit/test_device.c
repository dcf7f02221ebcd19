/* Devices as tables: memory, copies, streams and events of the CPU and of a card; buffers; what tests take from a card. */
#include "buffer.h"
#include "cuda_limits.h"

#include "test.h"

/* Whatever the device, memory goes there, is copied there, and comes back. */
static void check_memory(const sac_device *d) {
    sac_stream s, other;
    sac_event from, to;
    uint8_t in[1000], out[1000], late[1000];
    void *a, *b, *pinned;
    double ms = -1;
    for (size_t i = 0; i < sizeof in; i++) in[i] = (uint8_t)(i * 7);
    assert_int_equal(d->stream_open(d, &s, 4096, NULL), SAC_OK);
    assert_int_equal(d->alloc(d, sizeof in, &a, NULL), SAC_OK);
    assert_int_equal(d->alloc(d, 0, &b, NULL), SAC_OK);
    d->free(d, b);
    assert_int_equal(d->alloc(d, sizeof in, &b, NULL), SAC_OK);
    assert_int_equal(d->host_alloc(d, 100, &pinned, NULL), SAC_OK);
    assert_int_equal((uintptr_t)a % 256, 0);
    assert_int_equal(d->event_create(d, &from, NULL), SAC_OK);
    assert_int_equal(d->event_create(d, &to, NULL), SAC_OK);
    assert_int_equal(d->event_record(&s, &from), SAC_OK);
    assert_int_equal(d->upload(&s, a, in, sizeof in), SAC_OK);
    assert_int_equal(d->copy(&s, b, a, sizeof in), SAC_OK);
    assert_int_equal(d->zero(&s, b, 10), SAC_OK);
    assert_int_equal(d->copy(&s, b, NULL, 0), SAC_OK);
    assert_int_equal(d->download(&s, out, b, sizeof out), SAC_OK);
    assert_int_equal(d->event_record(&s, &to), SAC_OK);
    assert_int_equal(d->stream_sync(&s, NULL), SAC_OK);
    assert_int_equal(d->stream_open(d, &other, 0, NULL), SAC_OK); /* another stream after this one */
    assert_int_equal(d->zero(&s, b, 20), SAC_OK);
    assert_int_equal(d->event_record(&s, &from), SAC_OK);
    assert_int_equal(d->event_wait(&other, &from), SAC_OK);
    assert_int_equal(d->download(&other, late, b, sizeof late), SAC_OK);
    assert_int_equal(d->event_record(&other, &to), SAC_OK);
    assert_int_equal(d->event_sync(&to), SAC_OK);
    for (size_t i = 0; i < sizeof late; i++) assert_int_equal(late[i], i < 20 ? 0 : in[i]);
    d->stream_close(&other);
    for (size_t i = 0; i < sizeof out; i++) assert_int_equal(out[i], i < 10 ? 0 : in[i]);
    assert_int_equal(d->event_elapsed(&from, &to, &ms), SAC_OK);
    assert_true(ms >= 0);
    d->event_free(&from);
    d->event_free(&to);
    d->host_free(d, pinned);
    d->free(d, a);
    d->free(d, b);
    d->free(d, NULL);
    d->stream_close(&s);
    d->stream_close(&s);
}

static void test_cpu(void **state) {
    (void)state;
    sac_device d;
    assert_int_equal(sac_device_open(&d, SAC_DEVICE_CPU, 0, NULL), SAC_OK);
    assert_int_equal(d.kind, SAC_DEVICE_CPU);
    check_memory(&d);
}

static void test_too_much(void **state) {
    (void)state;
    sac_device d;
    sac_error err;
    void *p;
    sac_cpu_device_open(&d);
    assert_int_equal(d.alloc(&d, SIZE_MAX, &p, &err), SAC_NO_MEMORY);
    assert_null(p);
}

/* A card, or one line that says why there is none. */
static void test_cuda(void **state) {
    (void)state;
    sac_device d;
    sac_error err = {.status = SAC_OK};
    sac_status st = sac_device_open(&d, SAC_DEVICE_CUDA, 0, &err);
    if (st != SAC_OK) {
        assert_int_equal(st, SAC_UNSUPPORTED);
        assert_true(err.text[0] && !strchr(err.text, '\n'));
        print_message("%s\n", err.text);
        skip();
    }
    assert_int_equal(sac_device_open(&d, SAC_DEVICE_CUDA, 1000, &err), SAC_NOT_FOUND);
    assert_int_equal(sac_device_open(&d, SAC_DEVICE_CUDA, 0, &err), SAC_OK);
    assert_true(d.compute >= 80 && d.n_processors > 0 && d.memory_bytes > 0);
    void *p;
    assert_int_equal(d.alloc(&d, d.memory_bytes * 2, &p, &err), SAC_NO_MEMORY);
    check_memory(&d); /* a refused request leaves the card usable */
}

/* A device in name only, which counts copies and waits. */
static int n_moves;

static sac_status move(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    (void)s;
    n_moves++;
    memcpy(to, from, n_bytes);
    return SAC_OK;
}

static int n_waits;

static sac_status wait(const sac_stream *s, sac_error *err) {
    (void)s, (void)err;
    n_waits++;
    return SAC_OK;
}

/* Over one arena a buffer is one block, and nothing moves; over two it is two. */
static void buffers(void **state) {
    const sac_device d = {.upload = move, .download = move, .stream_sync = wait};
    const sac_stream s = {.device = &d};
    sac_arena host, device;
    (void)state;
    assert_int_equal(sac_arena_open(&host, 4096, NULL), SAC_OK);
    assert_int_equal(sac_arena_open(&device, 4096, NULL), SAC_OK);
    for (int two = 0; two < 2; two++) {
        const sac_memory memory = {&host, two ? &device : &host};
        sac_buffer b = sac_take_both(&memory, 8), half = sac_buffer_from(b, 4);
        uint8_t *here = b.host, *there = b.device;
        assert_true((here == there) == !two && half.host == here + 4 && half.device == there + 4);
        assert_true(sac_take_host(&memory, 8) != sac_take_device(&memory, 8));
        n_moves = n_waits = 0;
        here[0] = 1, here[4] = 2;
        assert_int_equal(sac_buffer_send(two ? &d : NULL, &s, half, 4), SAC_OK);
        assert_int_equal(there[4], 2);
        assert_int_equal(there[0], two ? 0 : 1);
        assert_true(n_moves == two && n_waits == 0);
        there[4] = 3;
        assert_int_equal(sac_buffer_fetch(two ? &d : NULL, &s, half, 4), SAC_OK);
        assert_int_equal(here[4], 3);
        assert_true(n_moves == 2 * two && n_waits == two);
    }
    sac_arena_free(&host);
    sac_arena_free(&device);
}

/* What tests take from a card; everything else is refused by what it is. */
static void limits_of_a_card(void **state) {
    static const char *const wrong[] = {"compute=70", "compute=", "compute=89,", "compute=89;early=0",
                                        "early=2",    "early",    "cudnn=no",    "shared=99KiB",
                                        ",early=0",   "speed=1"};
    sac_cuda_limits l;
    sac_error err = {0};
    (void)state;
    assert_int_equal(sac_cuda_limits_parse(&l, NULL, &err), SAC_OK);
    assert_true(!l.compute && !l.shared_kib && !l.no_early && !l.no_cudnn);
    assert_int_equal(sac_cuda_counted_compute(90, 90, &l), 90);
    assert_int_equal(sac_cuda_counted_compute(89, 80, &l), 89);
    assert_int_equal(sac_cuda_counted_compute(120, 80, &l), 80); /* a card newer than the build */
    assert_int_equal(sac_cuda_counted_compute(90, 80, &l), 80);
    assert_int_equal(sac_cuda_counted_compute(120, 120, &l), 120);
    assert_int_equal(sac_cuda_counted_shared(232448, &l), 232448);
    assert_int_equal(sac_cuda_limits_parse(&l, "compute=89,shared=99,early=0,cudnn=0,streams=0,digits=0,choice=0,e4m3=0,few=0,out=0", &err), SAC_OK);
    assert_true(l.no_early && l.no_cudnn && l.no_wide_streams && l.no_digits && l.no_choice && l.no_e4m3 && l.no_few_rows && l.no_out);
    assert_int_equal(sac_cuda_counted_compute(90, 90, &l), 89);
    assert_int_equal(sac_cuda_counted_compute(86, 80, &l), 86);
    assert_int_equal(sac_cuda_counted_shared(232448, &l), 99 << 10);
    assert_int_equal(sac_cuda_counted_shared(64 << 10, &l), 64 << 10);
    assert_int_equal(sac_cuda_limits_parse(&l, "early=1,cudnn=1,streams=1,digits=1,choice=1,e4m3=1,few=1,out=1", &err), SAC_OK);
    assert_true(!l.no_early && !l.no_cudnn && !l.no_wide_streams && !l.no_digits && !l.no_choice && !l.no_e4m3 && !l.no_few_rows && !l.no_out);
    for (size_t i = 0; i < SAC_COUNT(wrong); i++) {
        assert_int_equal(sac_cuda_limits_parse(&l, wrong[i], &err), SAC_BAD_ARGUMENT);
        assert_non_null(strstr(err.text, "SAC_CUDA_LIMITS"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_cuda),
        cmocka_unit_test(buffers),
        cmocka_unit_test(limits_of_a_card),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
