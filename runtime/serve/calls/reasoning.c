#include "reasoning.h"

#include <stdio.h>
#include <string.h>

static const char *const think_marks[] = {"<think>", "</think>", NULL};
static const char *const magistral_marks[] = {"[THINK]", "[/THINK]", NULL};
static const char *const seed_marks[] = {"<seed:think>", "</seed:think>", NULL};

static const reasoning_format formats[] = {
    {"think", "|qwen3|deepseek_r1|glm45|", "<think>", "</think>", think_marks},
    {"magistral", "|mistral|", "[THINK]", "[/THINK]", magistral_marks},
    {"seed", "|seed_oss|", "<seed:think>", "</seed:think>", seed_marks},
};

const reasoning_format *reasoning_format_find(const char *name) {
    char wanted[80];
    if (strchr(name, '|')) return NULL;
    snprintf(wanted, sizeof wanted, "|%.70s|", name);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, name) || strstr(formats[i].aliases, wanted)) return &formats[i];
    return NULL;
}

const reasoning_format *reasoning_format_of(const char *text) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strstr(text, formats[i].opener) || strstr(text, formats[i].closer)) return &formats[i];
    return NULL;
}
