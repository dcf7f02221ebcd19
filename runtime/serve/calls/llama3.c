/* llama3.c - Llama 3.1 and 3.2: the answer is {"name": "NAME", "parameters": {...}}, alone or behind the control token
 * <|python_tag|>; several are divided by semicolons. */
#include "call_format.h"

#include <string.h>

static bool writes(const char *text) {
    return strstr(text, "<|python_tag|>") || strstr(text, "{\"name\":");
}

static const char *const marks[] = {"<|python_tag|>", NULL};

const call_format call_format_llama3 = {
    .name = "llama3",
    .aliases = "|llama|llama3_json|llama4_json|",
    .opener = "",
    .also_opener = "<|python_tag|>",
    .closer = "",
    .separator = ';',
    .arguments = "parameters",
    .open_with = "",
    .close_with = "",
    .separate_with = "; ",
    .marks = marks,
    .writes = writes,
};
