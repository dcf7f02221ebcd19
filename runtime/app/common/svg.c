#include "svg.h"
#include "status.h"

#include <stddef.h>

/* Paper, letters, lines and the darkest colours for readers with dark pages. */
#define DARK                                                                                                 \
    "<style>@media(prefers-color-scheme:dark){.page{fill:#0d1117}text{fill:#e6edf3}[stroke=\"#eee\"],"       \
    "[stroke=\"#ddd\"],[stroke=\"#ccc\"]{stroke:#3d444d}[fill=\"#1f4e79\"]{fill:#4493f8}[stroke=\"#"         \
    "1f4e79\"]"                                                                                              \
    "{stroke:#4493f8}[fill=\"#b22222\"]{fill:#f85149}[stroke=\"#b22222\"]{stroke:#f85149}}</style>\n"

sac_status svg_open(svg *s, const char *path, double width, double height, sac_error *err) {
    *s = (svg){0};
    SAC_TRY(draft_open(&s->file, path, err));
    s->f = s->file.f;
    fprintf(s->f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
            "height=\"%.0f\" font-family=\"sans-serif\" role=\"img\">\n" DARK
            "<rect class=\"page\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height, width, height);
    return SAC_OK;
}

sac_status svg_close(svg *s, sac_error *err) {
    if (!s->f) return SAC_OK;
    fputs("</svg>\n", s->f);
    s->f = NULL;
    return draft_close(&s->file, err);
}

void svg_abandon(svg *s) {
    draft_abandon(&s->file);
    *s = (svg){0};
}

/* ---------------------------------------------------------------- text */

/* Bytes of the UTF-8 character at p that XML may hold, 0 where there is none: a stray byte, a character
 * written too long, a surrogate, U+FFFE and U+FFFF. */
static size_t character_bytes(const unsigned char *p) {
    static const unsigned least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 4;
    if (n == 1) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
    unsigned code = p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    bool allowed = code >= least[n] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) &&
                   code != 0xfffe && code != 0xffff;
    return allowed ? n : 0;
}

static void put_escaped(FILE *f, const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t n = character_bytes(p);
        if (*p == '<')
            fputs("&lt;", f);
        else if (*p == '>')
            fputs("&gt;", f);
        else if (*p == '&')
            fputs("&amp;", f);
        else if (*p < 0x20 || *p == 0x7f)
            fputc(' ', f);
        else if (n)
            fwrite(p, 1, n, f);
        else
            fputc('?', f);
        p += n ? n : 1;
    }
}

void svg_describe(const svg *s, const char *name, const char *text) {
    fputs("<title>", s->f);
    put_escaped(s->f, name);
    fputs("</title>\n<desc>", s->f);
    put_escaped(s->f, text);
    fputs("</desc>\n", s->f);
}

void svg_text(const svg *s, double x, double y, int size, svg_anchor anchor, const char *text) {
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    fprintf(s->f, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\"%s>", x, y, size, anchors[anchor]);
    put_escaped(s->f, text);
    fputs("</text>\n", s->f);
}

/* ---------------------------------------------------------------- shapes */

void svg_line(const svg *s, double x1, double y1, double x2, double y2, const char *colour, double width) {
    fprintf(s->f,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n",
            x1, y1, x2, y2, colour, width);
}

void svg_rect(const svg *s, double x, double y, double width, double height, const char *colour) {
    fprintf(s->f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, width,
            height, colour);
}

void svg_circle(const svg *s, double x, double y, double radius, const char *colour) {
    fprintf(s->f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, radius, colour);
}

void svg_polyline(const svg *s, const double *xy, size_t n_points, const char *colour, double width) {
    fprintf(s->f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" points=\"", colour, width);
    for (size_t i = 0; i < n_points; i++)
        fprintf(s->f, "%s%.1f,%.1f", i ? " " : "", xy[2 * i], xy[2 * i + 1]);
    fputs("\"/>\n", s->f);
}
