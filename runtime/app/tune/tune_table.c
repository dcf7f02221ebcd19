#define _GNU_SOURCE
#include "tune_table.h"
#include "method_list_read.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tune_want_names[TUNE_WANTS] = {"prefill", "memory", "decode"};

enum { P = 1 << TUNE_PREFILL, M = 1 << TUNE_MEMORY, D = 1 << TUNE_DECODE };

/* The lines of docs/scoreboard.md first, as they stand there: whatever is found is no worse than these. Then a line a method.
 * Ranges hold each method's default, what docs/scoreboard.md measures and what lies around it; skip, dense_layers and layer
 * are the settings that differ between layers. */
const tune_family tune_families[] = {
    {"prefill=zipvl:min=0", P},
    {"prefill=zipvl:min=0,side=one", P},
    {"prefill=zipvl:min=0,side=band", P},
    {"prefill=zipvl:min=0,side=band,tau=0.9", P},
    {"prefill=zipvl:min=0,skip=1,side=band,random=512", P},
    {"prefill=zipvl:min=0,skip=2,side=band,tau=0.99,random=256", P},
    {"prefill=tokenselect:init=64,local=256,chunk=256,k=512,pos=orig,vote=true,scale=rsqrt_d,means=8", P},
    {"prefill=streaming:start=64,recent=768", P},
    {"prefill=minference:v=256,s=512", P},
    {"prefill=minference:pattern=block_sparse,blocks=12", P},
    {"prefill=minference:pattern=a_shape,v=64,s=704", P},
    {"prefill=fastv", P | M | D},
    {"prefill=zipvl:min=0 kv=mixed:low=0", M | D},
    {"prefill=zipcache kv=zipcache", M | D},
    {"decode=snapkv:cap=512", M | D},
    {"decode=pyramidkv:cap=512", M | D},
    {"decode=h2o", M | D},
    {"decode=adore", M | D},
    {"decode=adore:recent=32", M | D},
    {"decode=quest:budget=512", D},
    {"decode=doublesparse:k=512", D},
    {"decode=tokenselect:init=64,local=256,k=512,pos=orig", D},
    {"decode=twilight:base=quest,p=0.95", D},
    {"decode=duo:start=64,recent=448", D},
    {"prefill=zipvl:min=0,tau={0.8|0.9|0.95|0.975|0.99},side={two|one|band},skip={0|2}", P},
    {"prefill=zipvl:min=0,side=band,tau={0.975|0.99},skip={1|2},random={256|512},sink={0|1}", P}, /* sharp attention wants probes */
    {"prefill=minference:v={@/16|@/8},s={@/8|@/4|@/2},dense_layers={0|2}", P},
    {"prefill=minference:pattern=block_sparse,blocks={4|8|12|16},dense_layers={0|2}", P},
    {"prefill=minference:pattern=a_shape,v=64,s={@/4|@/2}", P},
    {"prefill=xattn:min=0,tau={0.7|0.8|0.9|0.95},stride={8|16},dense_layers={0|2}", P},
    {"prefill=fastv:layer={2|3|4},ratio={0.5|0.75|0.9}", P | M | D},
    {"prefill=fastv:mode=attn,layer={2|3},ratio={0.5|0.75|0.9}", P},
    {"prefill=tokenselect:init=64,local=256,chunk=256,k={@/8|@/4|@/"
     "2},pos=orig,vote=true,scale=rsqrt_d,means={1|8}",
     P},
    {"prefill=infllm:init=64,local={@/8|@/4},block=64,topk={4|8},chunk=256,probe=4", P},
    {"prefill=streaming:start=64,recent={@/4|@/2}", P},
    {"reduce=hired:rate={0.2|0.4|0.6}", P | M | D},
    {"kv=int4:bits={2|4|8}", M | D},
    {"kv=kivi:bits={2|4},group=32,residual={32|128}", M | D},
    {"kv=kvarn:k={2|4},v={2|4}", M | D},
    {"kv=mixed:low={0|2|4},k_group={0|32}", M | D},
    {"kv=mixed:low=2,top_p={0.9|0.95|0.99}", D},
    {"prefill=zipvl:min=0,tau={0.9|0.975},side={one|band} kv=mixed:low={0|2}", M},
    {"prefill=zipcache:salient={0.2|0.4|0.6} kv=zipcache:k_group={0|32}", M | D},
    {"decode=snapkv:cap={@/32|@/16|@/8|@/4}", M | D},
    {"decode=pyramidkv:cap={@/32|@/16|@/8|@/4}", M | D},
    {"decode=h2o:heavy={0.05|0.1|0.2},recent={0.05|0.1}", M | D},
    {"decode=adore:m={@/32|@/16|@/8},recent=32", M | D},
    {"kv={int4|kivi:bits=4} decode=snapkv:cap={@/16|@/8|@/4}", M},
    {"kv={int4|kivi|kvarn} prefill=fastv:layer=3,ratio={0.5|0.75}", M},
    {"decode=quest:budget={@/16|@/8|@/4},page={8|16},skip={0|2}", D},
    {"decode=doublesparse:k={@/16|@/8|@/4},skip={0|2}", D},
    {"decode=tokenselect:init=64,local=256,k={@/16|@/8|@/4},pos=orig,vote=true,scale=rsqrt_d", D},
    {"decode=twilight:p={0.7|0.8|0.9|0.95},skip={0|2}", D},
    {"decode=twilight:base=quest,base.budget={@/4|@/2},p={0.8|0.95}", D},
    {"decode=duo:start=64,recent={@/8|@/4},share={0.25|0.5|0.75}", D},
    {"decode=infllm:init=64,local={@/8|@/4},block=64,topk={4|8}", D},
    {"kv={int4|kivi:bits=4|kvarn} decode=quest:budget={@/8|@/4}", D},
};
const size_t tune_n_families = SAC_COUNT(tune_families);

/* ---------------------------------------------------------------- texts */

size_t tune_family_count(const char *text) {
    size_t n = 1;
    while ((text = strchr(text, '{'))) {
        size_t values = 1;
        for (; *text != '}'; text++) values += *text == '|';
        n *= values;
    }
    return n;
}

/* One value of a range: as it stands, or a share of the prompt. */
static void put_value(FILE *f, const char *value, size_t n, int64_t prompt_tokens) {
    if (n < 3 || value[0] != '@') {
        fprintf(f, "%.*s", (int)n, value);
        return;
    }
    int64_t share = prompt_tokens / strtol(value + 2, NULL, 10) / 16 * 16;
    fprintf(f, "%lld", (long long)(share < 64 ? 64 : share));
}

char *tune_family_line(const char *text, size_t i, int64_t prompt_tokens) {
    char *line = NULL;
    size_t n;
    FILE *f = open_memstream(&line, &n);
    if (!f) return NULL;
    for (const char *p = text; *p;) {
        if (*p != '{') {
            fputc(*p++, f);
            continue;
        }
        const char *end = strchr(p, '}');
        size_t n_values = 1;
        for (const char *q = p; q < end; q++) n_values += *q == '|';
        p++;
        for (size_t k = i % n_values; k > 0; k--) p = strchr(p, '|') + 1;
        put_value(f, p, strcspn(p, "|}"), prompt_tokens);
        i /= n_values;
        p = end + 1;
    }
    bool bad = ferror(f);
    if (fclose(f) == 0 && !bad) return line;
    free(line);
    return NULL;
}

/* ---------------------------------------------------------------- the list */

/* "prefill=... kv=..." without a check: the table is ours. */
static sac_status split_line(char *text, method_line *out, sac_error *err) {
    char *rest = NULL;
    *out = (method_line){0};
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        int part = equals ? method_part_find(word, (size_t)(equals - word)) : -1;
        if (part < 0) return sac_fail(err, SAC_INTERNAL, "%s: no method line", word);
        if (!(out->part[part] = strdup(equals + 1))) return sac_fail_no_memory(err);
    }
    return SAC_OK;
}

/* Takes the text over, which may be NULL. */
static sac_status add_text(method_list *list, char *text, sac_error *err) {
    method_line line;
    size_t at;
    if (!text) return sac_fail_no_memory(err);
    sac_status st = split_line(text, &line, err);
    free(text);
    if (st == SAC_OK) return method_list_add(list, &line, true, &at, err);
    method_line_free(&line);
    return st;
}

sac_status tune_table_add_line(method_list *list, const char *line, sac_error *err) {
    return add_text(list, strdup(line), err);
}

static size_t divisor(size_t a, size_t b) {
    return b ? divisor(b, a % b) : a;
}

/* Line k of n in an order that leaves no corner of the ranges for the end. */
static size_t scattered(size_t k, size_t n) {
    size_t step = (size_t)(0.618 * (double)n + 0.5);
    while (step > 1 && divisor(step, n) != 1) step--;
    return n ? k * (step ? step : 1) % n : 0;
}

sac_status tune_table_add(method_list *list, tune_want want, int64_t prompt_tokens, sac_error *err) {
    bool any = true;
    for (size_t k = 0; any; k++) {
        any = false;
        for (size_t f = 0; f < tune_n_families; f++) {
            size_t n = tune_family_count(tune_families[f].text);
            if (!(tune_families[f].wants & 1u << want) || k >= n) continue;
            any = true;
            SAC_TRY(
                add_text(list, tune_family_line(tune_families[f].text, scattered(k, n), prompt_tokens), err));
        }
    }
    return SAC_OK;
}
