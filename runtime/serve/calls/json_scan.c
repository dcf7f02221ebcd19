#include "json_scan.h"

#include <string.h>

enum state {
    VALUE,
    FIRST_ITEM,
    FIRST_KEY,
    KEY,
    COLON,
    AFTER,
    STRING,
    ESCAPE,
    KEY_STRING,
    KEY_ESCAPE,
    WORD,
    MINUS,
    ZERO,
    WHOLE,
    POINT,
    FRACTION,
    E,
    SIGN,
    EXPONENT
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_hex(char c) {
    return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

static bool in_object(const json_scan *s) {
    int at = s->depth - 1;
    return s->depth > 0 && (s->objects[at / 64] >> (at % 64) & 1);
}

static json_scan_result to(json_scan *s, enum state state) {
    s->state = (uint8_t)state;
    return JSON_SCAN_MORE;
}

/* A value is whole. */
static json_scan_result end_value(json_scan *s) {
    s->state = AFTER;
    return s->depth ? JSON_SCAN_MORE : JSON_SCAN_DONE;
}

static json_scan_result open(json_scan *s, bool object) {
    if (s->depth == JSON_SCAN_DEPTH) return JSON_SCAN_BAD;
    uint64_t bit = (uint64_t)1 << (s->depth % 64), *set = &s->objects[s->depth / 64];
    *set = object ? *set | bit : *set & ~bit;
    s->depth++;
    return to(s, object ? FIRST_KEY : FIRST_ITEM);
}

static json_scan_result close_level(json_scan *s, char c) {
    if ((c == '}') != in_object(s) || s->depth == 0) return JSON_SCAN_BAD;
    s->depth--;
    return end_value(s);
}

static json_scan_result begin(json_scan *s, char c) {
    static const char *const words[] = {"true", "false", "null"};
    if (c == '{' || c == '[') return open(s, c == '{');
    if (c == '"') return to(s, STRING);
    if (c == '-') return to(s, MINUS);
    if (is_digit(c)) return to(s, c == '0' ? ZERO : WHOLE);
    for (int i = 0; i < 3; i++)
        if (c == words[i][0]) {
            s->word = words[i] + 1;
            return to(s, WORD);
        }
    return JSON_SCAN_BAD;
}

static json_scan_result in_string(json_scan *s, char c) {
    bool key = s->state == KEY_STRING || s->state == KEY_ESCAPE,
         escaped = s->state == ESCAPE || s->state == KEY_ESCAPE;
    if (s->hex) {
        s->hex--;
        return is_hex(c) ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    }
    if (escaped) {
        if (c == 'u') s->hex = 4;
        return c && strchr("\"\\/bfnrtu", c) ? to(s, key ? KEY_STRING : STRING) : JSON_SCAN_BAD;
    }
    if (c == '\\') return to(s, key ? KEY_ESCAPE : ESCAPE);
    if ((unsigned char)c < 0x20) return JSON_SCAN_BAD;
    if (c != '"') return JSON_SCAN_MORE;
    return key ? to(s, COLON) : end_value(s);
}

static json_scan_result after(json_scan *s, char c) {
    if (c == '}' || c == ']') return close_level(s, c);
    if (c != ',' || s->depth == 0) return JSON_SCAN_BAD;
    return to(s, in_object(s) ? KEY : VALUE);
}

bool json_scan_ends(const json_scan *s) {
    return s->depth == 0 &&
           (s->state == ZERO || s->state == WHOLE || s->state == FRACTION || s->state == EXPONENT);
}

static json_scan_result in_number(json_scan *s, char c) {
    bool whole = s->state == ZERO || s->state == WHOLE;
    if (is_digit(c)) {
        if (s->state == ZERO) return JSON_SCAN_BAD;
        if (s->state == MINUS) return to(s, c == '0' ? ZERO : WHOLE);
        if (s->state == POINT || s->state == FRACTION) return to(s, FRACTION);
        return to(s, s->state == WHOLE ? WHOLE : EXPONENT);
    }
    if (whole && c == '.') return to(s, POINT);
    if ((whole || s->state == FRACTION) && (c | 32) == 'e') return to(s, E);
    if (s->state == E && (c == '+' || c == '-')) return to(s, SIGN);
    if (!whole && s->state != FRACTION && s->state != EXPONENT) return JSON_SCAN_BAD;
    s->state = AFTER;
    return strchr(" \t\r\n", c) && c ? JSON_SCAN_MORE : after(s, c);
}

json_scan_result json_scan_byte(json_scan *s, char c) {
    if (s->state < STRING && c && strchr(" \t\r\n", c)) return JSON_SCAN_MORE;
    switch ((enum state)s->state) {
    case VALUE: return begin(s, c);
    case FIRST_ITEM: return c == ']' ? close_level(s, c) : begin(s, c);
    case FIRST_KEY: return c == '}' ? close_level(s, c) : c == '"' ? to(s, KEY_STRING) : JSON_SCAN_BAD;
    case KEY: return c == '"' ? to(s, KEY_STRING) : JSON_SCAN_BAD;
    case COLON: return c == ':' ? to(s, VALUE) : JSON_SCAN_BAD;
    case AFTER: return after(s, c);
    case STRING:
    case ESCAPE:
    case KEY_STRING:
    case KEY_ESCAPE: return in_string(s, c);
    case WORD:
        if (*s->word != c) return JSON_SCAN_BAD;
        return *++s->word ? JSON_SCAN_MORE : end_value(s);
    default: return in_number(s, c);
    }
}
