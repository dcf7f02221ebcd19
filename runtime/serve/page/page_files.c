#include "page.h"

#include <string.h>

const serve_page_file *serve_page_find(const char *path) {
    const serve_page_file *f = serve_page_files;
    while (f->path && strcmp(f->path, path) != 0) f++;
    return f->path ? f : NULL;
}

const char *serve_page_type(const serve_page_file *f) {
    static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
                                           {".css", "text/css; charset=utf-8"},
                                           {".js", "text/javascript; charset=utf-8"},
                                           {".png", "image/png"},
                                           {".mp4", "video/mp4"}};
    const char *end = strrchr(f->name, '.');
    for (size_t i = 0; end && i < sizeof types / sizeof *types; i++)
        if (!strcmp(end, types[i][0])) return types[i][1];
    return "application/octet-stream";
}
