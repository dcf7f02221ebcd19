/* hermes.c - Nous Hermes 2 Pro's form, which Qwen2.5, Qwen3, Qwen2.5-VL and Qwen3-VL took over:
 *   <tool_call>
 *   {"name": "NAME", "arguments": {...}}
 *   </tool_call> */
#include "call_format.h"

#include <string.h>

static bool writes(const char *text) {
    return strstr(text, "<tool_call>") != NULL;
}

static const char *const marks[] = {"<tool_call>", "</tool_call>", NULL};

const call_format call_format_hermes = {
    .name = "hermes",
    .aliases = "|qwen|qwen2|qwen3|qwen2_5|",
    .opener = "<tool_call>",
    .closer = "</tool_call>",
    .arguments = "arguments",
    .open_with = "<tool_call>\n",
    .close_with = "\n</tool_call>",
    .separate_with = "\n",
    .marks = marks,
    .writes = writes,
};
