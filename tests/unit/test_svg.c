/* SVG files: whole or not there, and well-formed whatever the text. */
#define _GNU_SOURCE
#include "test.h"

#include "svg.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static sac_error err;
static const char path[] = "/tmp/test_svg.XXXXXX";

static char *read_file(const char *name) {
    static char text[4096];
    FILE *f = fopen(name, "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static void text_is_escaped(void **state) {
    static const struct {
        const char *given, *written;
    } cases[] = {
        {"a < b && \"c\" > 'd'", ">a &lt; b &amp;&amp; \"c\" &gt; 'd'</text>"},
        {"one\ntwo\x1b[0m", ">one two [0m</text>"},
        {"Gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
         ">Gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80</text>"},
        {"\xff\xc3", ">\?\?</text>"},                                         /* stray, cut short */
        {"\xc0\xaf \xe0\x80\xaf \xed\xa0\x80", ">\?\? \?\?\? \?\?\?</text>"}, /* too long, a surrogate */
        {"\xef\xbf\xbf \xf4\x90\x80\x80", ">\?\?\? \?\?\?\?</text>"},         /* no characters of XML */
        {"", "></text>"},
    };
    char **name = (char **)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        svg s;
        assert_ok(svg_open(&s, *name, 10, 10, &err), err);
        svg_text(&s, 1, 2, 3, SVG_MIDDLE, cases[i].given);
        assert_ok(svg_close(&s, &err), err);
        if (!strstr(read_file(*name), cases[i].written)) fail_msg("%s", read_file(*name));
    }
}

static void an_unfinished_file_is_not_there(void **state) {
    char **name = (char **)state, part[64];
    svg s;
    snprintf(part, sizeof part, "%s.part", *name);
    unlink(*name);
    assert_ok(svg_open(&s, *name, 10, 10, &err), err);
    assert_int_equal(access(part, F_OK), 0);
    assert_int_equal(access(*name, F_OK), -1);
    svg_abandon(&s);
    assert_int_equal(access(part, F_OK), -1);
    assert_ok(svg_close(&s, &err), err); /* nothing left to do */
    assert_int_equal(svg_open(&s, "/no/where/x.svg", 10, 10, &err), SAC_IO);
    assert_non_null(strstr(err.text, "/no/where/x.svg.part: "));
}

/* A link stays, a device and a pipe stay what they are. */
static void only_a_regular_file_is_replaced(void **state) {
    char **name = (char **)state, link[64], text[64] = "";
    struct stat st;
    svg s;
    snprintf(link, sizeof link, "%s.link", *name);
    for (int there = 0; there < 2; there++) {
        unlink(*name);
        if (there) assert_int_equal(close(open(*name, O_WRONLY | O_CREAT, 0600)), 0);
        assert_int_equal(symlink(*name, link), 0);
        assert_ok(svg_open(&s, link, 10, 10, &err), err);
        assert_ok(svg_close(&s, &err), err);
        assert_true(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
        assert_non_null(strstr(read_file(*name), "</svg>"));
        unlink(link);
    }
    assert_int_equal(mkfifo(link, 0600), 0);
    int fd = open(link, O_RDWR); /* neither end waits for the other */
    assert_true(fd >= 0);
    assert_ok(svg_open(&s, link, 10, 10, &err), err);
    assert_ok(svg_close(&s, &err), err);
    assert_true(lstat(link, &st) == 0 && S_ISFIFO(st.st_mode));
    assert_true(read(fd, text, 4) == 4 && !strcmp(text, "<svg"));
    close(fd);
    unlink(link);
}

static int set_up(void **state) {
    static char name[sizeof path];
    memcpy(name, path, sizeof path);
    int fd = mkstemp(name);
    *state = name;
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state) {
    unlink(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(an_unfinished_file_is_not_there),
        cmocka_unit_test(only_a_regular_file_is_replaced),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
