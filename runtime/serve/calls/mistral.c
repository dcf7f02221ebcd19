/* mistral.c - Mistral's form up to tokenizer version 7: [TOOL_CALLS][{"name": "NAME", "arguments": {...}}, ...]. The opener is a
 * control token. Its templates want ids of nine letters and digits. */
#include "call_format.h"

#include <string.h>

static bool writes(const char *text) {
    return strstr(text, "[TOOL_CALLS]") != NULL;
}

static const char *const marks[] = {"[TOOL_CALLS]", NULL};

const call_format call_format_mistral = {
    .name = "mistral",
    .aliases = "|pixtral|",
    .opener = "[TOOL_CALLS]",
    .closer = "]",
    .separator = ',',
    .is_list = true,
    .arguments = "arguments",
    .open_with = "[TOOL_CALLS][",
    .close_with = "]",
    .separate_with = ", ",
    .id_length = 9,
    .marks = marks,
    .writes = writes,
};
