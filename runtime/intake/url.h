/* url.h - what addresses of strangers hold: bytes in a data: URI, the path of a file: URL. */
#ifndef INTAKE_URL_H
#define INTAKE_URL_H

#include <stdbool.h>
#include <stddef.h>

/* The base64 text of "data:TYPE;base64,TEXT"; NULL when it is no such URI. */
const char *intake_data_text(const char *url);

/* The path of "file:///PATH" or "file://localhost/PATH", %41 and the like replaced; false when it is no such
 * URL, is longer than the room, or would not be a text. */
bool intake_file_path(const char *url, char *path, size_t room);

#endif
