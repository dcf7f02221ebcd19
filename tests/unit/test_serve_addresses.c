/* What strangers may name: base64, URLs, addresses, domains, hosts of a server that only this machine reaches. */
#include "base64.h"
#include "fetch.h"
#include "origin.h"
#include "url.h"

#include "test.h"

#include <arpa/inet.h>

static bool decodes(const char *text, const char *wanted) {
    uint8_t out[64];
    size_t n;
    return sac_base64_decode(text, strlen(text), out, &n) && n == strlen(wanted) &&
           !memcmp(out, wanted, n);
}

static void base64(void **state) {
    (void)state;
    assert_true(decodes("", ""));
    assert_true(decodes("Zm9vYg==", "foob") && decodes("Zm9vYg", "foob") &&
                decodes("Zm9v\r\nYmFy", "foobar"));
    assert_true(decodes("-_-_", "\xfb\xff\xbf") && decodes("+/+/", "\xfb\xff\xbf"));
    assert_false(decodes("Z", "") || decodes("Zm9v*", "foo") || decodes("Zg=a", "f") ||
                 decodes("Zg===", "f"));
}

static bool path_is(const char *url, const char *wanted) {
    char path[32];
    return intake_file_path(url, path, sizeof path) && !strcmp(path, wanted);
}

static void urls(void **state) {
    (void)state;
    const char *text = intake_data_text("data:image/png;base64,Zm9v");
    assert_true(text && !strcmp(text, "Zm9v"));
    assert_non_null(intake_data_text("DATA:;Base64,"));
    assert_null(intake_data_text("data:image/png,Zm9v"));
    assert_null(intake_data_text("data;base64,Zm9v"));
    assert_null(intake_data_text("data:image/png;base64"));
    assert_true(path_is("file:///a/b%20c.png", "/a/b c.png") && path_is("FILE://localhost/a", "/a"));
    assert_true(path_is("file:///%2e%2E/x", "/../x"));
    assert_false(path_is("file://a/b", "/b") || path_is("file:///a%0", "/a") ||
                 path_is("file:///a%00b", "/a"));
    assert_false(path_is("file:///a%zz", "/a") || path_is("/a", "/a"));
    char small[4];
    assert_true(intake_file_path("file:///ab", small, sizeof small));
    assert_false(intake_file_path("file:///abc", small, sizeof small));
}

static bool is_public(const char *text) {
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) return serve_address_is_public((struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return serve_address_is_public((struct sockaddr *)&v6);
}

static void addresses(void **state) {
    (void)state;
    static const char *const open[] = {"8.8.8.8",     "1.1.1.1",         "172.32.0.1",
                                       "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8"};
    static const char *const closed[] = {"127.0.0.1",
                                         "10.1.2.3",
                                         "172.16.0.1",
                                         "172.31.255.255",
                                         "192.168.0.1",
                                         "169.254.169.254",
                                         "100.64.0.1",
                                         "0.0.0.0",
                                         "224.0.0.1",
                                         "255.255.255.255",
                                         "192.0.2.1",
                                         "::1",
                                         "::",
                                         "fe80::1",
                                         "fd00::1",
                                         "ff02::1",
                                         "::ffff:127.0.0.1",
                                         "::127.0.0.1",
                                         "64:ff9b::7f00:1",
                                         "2002:7f00:1::",
                                         "2001::1",
                                         "2001:db8::1"};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) assert_true(is_public(open[i]));
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) assert_false(is_public(closed[i]));
}

static void domains(void **state) {
    (void)state;
    const char *const items[] = {"example.org", "*.example.net"};
    serve_texts d = {items, 2};
    assert_true(serve_domain_allowed(&d, "EXAMPLE.org") && serve_domain_allowed(&d, "a.b.example.net"));
    assert_false(serve_domain_allowed(&d, "a.example.org") || serve_domain_allowed(&d, "example.net") ||
                 serve_domain_allowed(&d, "badexample.net") || serve_domain_allowed(&d, "example.org.evil"));
    const char *const any[] = {"*"};
    assert_true(serve_domain_allowed(&(serve_texts){any, 1}, "x"));
}

static void hosts_of_a_loopback_server(void **state) {
    (void)state;
    static const char *const bound[] = {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"};
    static const char *const ours[] = {"localhost", "Localhost:8000", "127.0.0.1", "127.0.0.1:80",
                                       "[::1]:8000"};
    static const char *const others[] = {
        "evil.com", "evil.com:8000", "localhost.evil.com", "127.0.0.1.evil.com",
        "",         "[evil.com]",    "[127.0.0.1",         "::1"};
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) {
        serve_config c = {.host = bound[i]};
        assert_true(serve_host_allowed(&c, NULL));
        for (size_t k = 0; k < sizeof ours / sizeof *ours; k++) assert_true(serve_host_allowed(&c, ours[k]));
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            assert_false(serve_host_allowed(&c, others[k]));
        c.cors_origin = "https://Evil.com";
        assert_true(serve_host_allowed(&c, "evil.com"));
        assert_false(serve_host_allowed(&c, "evil.com.example"));
        c.cors_origin = "*";
        assert_true(serve_host_allowed(&c, "example.com"));
    }
    assert_true(serve_host_allowed(&(serve_config){.host = "0.0.0.0"}, "example.com"));
    assert_true(serve_host_allowed(&(serve_config){.host = "::"}, "example.com"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64),
        cmocka_unit_test(urls),
        cmocka_unit_test(addresses),
        cmocka_unit_test(domains),
        cmocka_unit_test(hosts_of_a_loopback_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
