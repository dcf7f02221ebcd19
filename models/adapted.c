#include "adapted.h"

#include <stdio.h>
#include <stdlib.h>

/* peft saves an embedding that it adapts as it was, so two adapters may bring the same. */
static bool is_same(const sac_checkpoint_tensor *a, const sac_checkpoint_tensor *b) {
    return a->dtype == b->dtype && a->n_bytes == b->n_bytes && memcmp(a->data, b->data, a->n_bytes) == 0;
}

static sac_status replace(sac_adapted *out, const sac_adapter *a, const sac_tensor_table *table, const sac_spec_tensor *row,
                          bool gguf, const char *name, sac_error *err) {
    bool is_own;
    sac_error why = {0};
    const sac_checkpoint_tensor *t = sac_adapter_replacement(a, name, &is_own);
    if (t && out->replacement && !is_same(t, out->replacement))
        return sac_fail(err, SAC_BAD_FILE,
                        "adapter %s: %.150s is replaced by another adapter too, with other numbers; leave "
                        "one of them out",
                        a->folder, t->name);
    if (!t) return SAC_OK;
    if (t->dtype != SAC_DTYPE_F32 && t->dtype != SAC_DTYPE_F16 && t->dtype != SAC_DTYPE_BF16)
        return sac_fail(err, SAC_UNSUPPORTED, "%s%s: %.150s is %s; f32, f16 or bf16 is needed here",
                        a->folder, sac_adapter_file(a), t->name, t->dtype_name);
    sac_status st = sac_tensor_table_check(table, row, gguf, t, &why);
    if (st != SAC_OK) return sac_fail(err, st, "%s%s: %s", a->folder, sac_adapter_file(a), why.text);
    out->replacement = t;
    out->is_own = is_own;
    return SAC_OK;
}

sac_status sac_adapted_find(sac_adapted *out, const sac_adapters *adapters, const sac_tensor_table *t,
                            const sac_spec_tensor *row, bool gguf, int layer, sac_error *err) {
    char name[SAC_TENSOR_NAME_BYTES];
    *out = (sac_adapted){0};
    for (int i = 0; adapters && i < adapters->n; i++) {
        const sac_adapter *a = &adapters->item[i];
        sac_lora lora = {0};
        const sac_checkpoint_tensor *before = out->replacement;
        for (int k = 0; !lora.a && sac_tensor_table_name(t, row, gguf, layer, k, name); k++)
            SAC_TRY(sac_adapter_find_lora(a, name, &lora, err));
        for (int k = 0; out->replacement == before && sac_tensor_table_name(t, row, gguf, layer, k, name);
             k++)
            SAC_TRY(replace(out, a, t, row, gguf, name, err));
        lora.part = sac_tensor_table_range(t, row);
        if (lora.a) out->loras[out->n_loras++] = lora;
    }
    return SAC_OK;
}

sac_status sac_adapted_check_tied(const sac_adapters *adapters, const sac_tensor_table *t,
                                  const sac_spec_tensor *embed, const sac_spec_tensor *head, bool gguf,
                                  sac_error *err) {
    for (int i = 0; i < adapters->n; i++) {
        const sac_adapters one = {.item = {adapters->item[i]}, .n = 1};
        sac_adapted e, h;
        bool ties = false;
        SAC_TRY(sac_json_get_bool(one.item[0].config, "ensure_weight_tying", &ties, err));
        SAC_TRY(sac_adapted_find(&e, &one, t, embed, gguf, 0, err));
        SAC_TRY(sac_adapted_find(&h, &one, t, head, gguf, 0, err));
        bool is_whole = h.n_loras >= e.n_loras && (h.replacement || !e.replacement);
        if (!ties || is_whole) continue;
        return sac_fail(
            err, SAC_BAD_FILE,
            "%s%s: \"ensure_weight_tying\" is true, but what it has for the embedding is not there for "
            "lm_head: save the adapter again",
            one.item[0].folder, sac_adapter_file(&one.item[0]));
    }
    return SAC_OK;
}

sac_status sac_base_reads_open(sac_base_reads *r, const sac_checkpoint *first, const sac_checkpoint *second,
                               sac_error *err) {
    *r = (sac_base_reads){.checkpoint = {first, second}};
    for (int k = 0; k < 2; k++) {
        if (!r->checkpoint[k]) continue;
        r->read[k] = calloc((size_t)r->checkpoint[k]->n_tensors + 1, sizeof **r->read);
        if (!r->read[k]) return sac_fail_no_memory(err);
    }
    return SAC_OK;
}

void sac_base_reads_close(sac_base_reads *r) {
    free(r->read[0]);
    free(r->read[1]);
    *r = (sac_base_reads){0};
}

void sac_base_reads_add(sac_base_reads *r, const sac_checkpoint *checkpoint, const sac_checkpoint_tensor *t) {
    for (int k = 0; k < 2; k++)
        if (r->read[k] && r->checkpoint[k] == checkpoint) r->read[k][t - checkpoint->tensors] = true;
}

/* A tensor of the tower that the files have, under whichever prefix, and the model does not read. */
static bool is_unread(const sac_tensor_table *t, const sac_base_reads *reads, const char *name) {
    const sac_spec_list *prefixes = sac_family_spec_prefix(t->specs[0], "tower");
    char other[SAC_TENSOR_NAME_BYTES];
    for (int i = 0; prefixes && i < prefixes->n * prefixes->n; i++) {
        const char *own = prefixes->item[i / prefixes->n], *file = prefixes->item[i % prefixes->n];
        if (strncmp(name, own, strlen(own)) != 0) continue;
        snprintf(other, sizeof other, "%s%s", file, name + strlen(own));
        for (int k = 0; k < 2; k++) {
            const sac_checkpoint *c = reads->checkpoint[k];
            const sac_checkpoint_tensor *found = c ? sac_checkpoint_find(c, other) : NULL;
            if (found && !reads->read[k][found - c->tensors]) return true;
        }
    }
    return false;
}

sac_status sac_adapted_check_used(const sac_adapters *adapters, const sac_tensor_table *t,
                                  const sac_base_reads *reads, sac_error *err) {
    char name[SAC_TENSOR_NAME_BYTES];
    for (int i = 0; i < adapters->n; i++) {
        const sac_adapter *a = &adapters->item[i];
        for (int k = 0; k < a->tensors.n_tensors; k++) {
            if (a->used[k]) continue;
            if (sac_adapter_base_name(a, k, name, sizeof name) && is_unread(t, reads, name)) continue;
            return sac_fail(err, SAC_BAD_FILE,
                            "%s%s: %.150s is for nothing that this base has: give the base that "
                            "the adapter was trained on",
                            a->folder, sac_adapter_file(a), a->tensors.tensors[k].name);
        }
    }
    return SAC_OK;
}
