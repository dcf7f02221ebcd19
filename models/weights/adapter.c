#define _POSIX_C_SOURCE 200809L
#include "adapter.h"

#include "safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PATH_BYTES 4096
#define NAME_BYTES 512
#define PREFIX     "base_model.model."

static const char config_name[] = "adapter_config.json", tensors_name[] = "adapter_model.safetensors";

/* ---- the folder ---- */

void sac_adapter_close(sac_adapter *a) {
    free(a->folder);
    free(a->used);
    json_decref(a->config);
    sac_checkpoint_free(&a->tensors);
    *a = (sac_adapter){0};
}

const char *sac_adapter_file(const sac_adapter *a) {
    return a->is_gguf ? "" : "/adapter_model.safetensors";
}

static bool is_gguf_file(const char *path) {
    size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".gguf") == 0 && sac_file_exists(path);
}

/* "DIR:scale" into its parts. */
static sac_status read_spec(sac_adapter *a, const char *spec, sac_error *err) {
    const char *colon = strrchr(spec, ':');
    size_t n = strlen(spec);
    a->scale = 1;
    if (!sac_folder_exists(spec) && !is_gguf_file(spec) && colon && colon > spec) {
        char *end;
        double scale = strtod(colon + 1, &end);
        if (!colon[1] || *end || !isfinite(scale) || fabs(scale) > 1e6)
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "adapter \"%.120s\": no such folder; give DIR or DIR:SCALE, the scale a number",
                            spec);
        a->scale = scale;
        n = (size_t)(colon - spec);
    }
    a->folder = strndup(spec, n);
    if (!a->folder) return sac_fail_no_memory(err);
    if (sac_folder_exists(a->folder) || is_gguf_file(a->folder)) return SAC_OK;
    return sac_fail(err, SAC_NOT_FOUND,
                    "adapter %.120s: no such folder; give a .gguf file, or a folder with %s and %s (fetched "
                    "with \"hf download ORG/NAME "
                    "--local-dir DIR\")",
                    a->folder, config_name, tensors_name);
}

static sac_status open_config(sac_adapter *a, sac_error *err) {
    char path[PATH_BYTES];
    SAC_TRY(sac_path_join(path, sizeof path, a->folder, config_name, err));
    if (!sac_file_exists(path))
        return sac_fail(err, SAC_NOT_FOUND,
                        "%s: No such file: give the folder that peft's save_pretrained wrote", path);
    SAC_TRY(sac_json_parse_file(&a->config, path, err));
    sac_status st = sac_adapter_check_config(a->config, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "%s", path);
}

static sac_status open_tensors(sac_adapter *a, sac_error *err) {
    char path[PATH_BYTES], other[PATH_BYTES];
    SAC_TRY(sac_path_join(path, sizeof path, a->folder, tensors_name, err));
    SAC_TRY(sac_path_join(other, sizeof other, a->folder, "adapter_model.bin", err));
    if (!sac_file_exists(path) && sac_file_exists(other))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "%s: a file of Python's pickle; write it as %s (peft: PeftModel.from_pretrained, "
                        "save_pretrained)",
                        other, tensors_name);
    if (!sac_file_exists(path))
        return sac_fail(err, SAC_NOT_FOUND, "%s: No such file: download incomplete, fetch the adapter again",
                        path);
    SAC_TRY(sac_safetensors_open_file(&a->tensors, path, err));
    if (a->tensors.n_tensors == 0)
        return sac_fail(err, SAC_BAD_FILE,
                        "%s: no tensors in it: save the adapter again (peft: save_pretrained)", path);
    a->used = calloc((size_t)a->tensors.n_tensors, sizeof *a->used);
    return a->used ? SAC_OK : sac_fail_no_memory(err);
}

sac_status sac_adapter_open(sac_adapter *a, const char *spec, sac_error *err) {
    *a = (sac_adapter){0};
    sac_status st = read_spec(a, spec, err);
    if (st == SAC_OK && is_gguf_file(a->folder))
        st = sac_adapter_open_gguf(a, err);
    else if (st == SAC_OK) {
        st = open_config(a, err);
        if (st == SAC_OK) st = open_tensors(a, err);
    }
    if (st != SAC_OK) sac_adapter_close(a);
    return st;
}

/* ---- its tensors ---- */

static const sac_checkpoint_tensor *find(const sac_adapter *a, const char *module, int n_module,
                                         const char *suffix) {
    char name[NAME_BYTES];
    int n = snprintf(name, sizeof name, PREFIX "%.*s.%s", n_module, module, suffix);
    return n > 0 && (size_t)n < sizeof name ? sac_checkpoint_find(&a->tensors, name) : NULL;
}

static const sac_checkpoint_tensor *use(const sac_adapter *a, const sac_checkpoint_tensor *t) {
    if (t) a->used[t - a->tensors.tensors] = true;
    return t;
}

/* The module's pair, whichever of the two ways it is stored in; false when there is none. */
static bool find_pair(const sac_adapter *a, const char *module, int n_module, sac_lora *out) {
    *out = (sac_lora){.adapter = a};
    out->a = find(a, module, n_module, "lora_A.weight");
    out->b = find(a, module, n_module, "lora_B.weight");
    if (out->a || out->b) return true;
    out->a = find(a, module, n_module, "lora_embedding_A");
    out->b = find(a, module, n_module, "lora_embedding_B");
    out->is_embedding = true;
    return out->a || out->b;
}

static sac_status failed(const sac_adapter *a, sac_status st, sac_error *err) {
    return sac_fail_prefix(err, st, "%s/%s", a->folder, config_name);
}

static sac_status read_scaling(const sac_adapter *a, const char *module, sac_lora *out, sac_error *err) {
    double alpha;
    bool by_root = false, targets;
    sac_status st = sac_adapter_targets(a->config, module, out->is_embedding, &targets, err);
    if (st == SAC_OK && !targets)
        st = sac_fail(
            err, SAC_BAD_FILE,
            "no such module by \"target_modules\" and what goes with it, but %s has %.150s: save the adapter "
            "again",
            tensors_name, out->a->name);
    if (st == SAC_OK) st = sac_adapter_rank_alpha(a->config, module, &out->rank, &alpha, err);
    if (st == SAC_OK) st = sac_json_get_bool(a->config, "use_rslora", &by_root, err);
    if (st != SAC_OK) return failed(a, st, err);
    out->scaling = a->scale * alpha / (by_root ? sqrt((double)out->rank) : (double)out->rank);
    return SAC_OK;
}

static sac_status find_magnitude(const sac_adapter *a, const char *module, sac_lora *out, sac_error *err) {
    bool is_dora = false;
    SAC_TRY(sac_json_get_bool(a->config, "use_dora", &is_dora, err));
    if (!is_dora) return SAC_OK;
    int n = (int)strlen(module);
    out->magnitude = find(a, module, n, "lora_magnitude_vector");
    if (!out->magnitude) out->magnitude = find(a, module, n, "lora_magnitude_vector.weight");
    if (use(a, out->magnitude)) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE,
                    "%s/%s: \"use_dora\" is true, but %.150s has no lora_magnitude_vector beside it: save "
                    "the adapter again",
                    a->folder, tensors_name, out->a->name);
}

sac_status sac_adapter_find_lora(const sac_adapter *a, const char *name, sac_lora *out, sac_error *err) {
    const char *dot = strrchr(name, '.');
    char module[NAME_BYTES];
    if (a->is_gguf) return sac_adapter_find_gguf(a, name, out, err);
    *out = (sac_lora){0};
    if (!dot || strcmp(dot, ".weight") != 0 || dot - name >= NAME_BYTES) return SAC_OK;
    snprintf(module, sizeof module, "%.*s", (int)(dot - name), name);
    if (!find_pair(a, module, (int)strlen(module), out)) return SAC_OK;
    if (!out->a || !out->b)
        return sac_fail(err, SAC_BAD_FILE,
                        "%s/%s: %.150s is there without its other half: save the adapter again", a->folder,
                        tensors_name, out->a ? out->a->name : out->b->name);
    use(a, out->a);
    use(a, out->b);
    SAC_TRY(read_scaling(a, module, out, err));
    return find_magnitude(a, module, out, err);
}

/* Is the module, or one that it is inside, in modules_to_save? */
static bool is_saved(const sac_adapter *a, const char *module, int n_module) {
    const json_t *saved = json_object_get(a->config, "modules_to_save");
    for (size_t i = 0; i < json_array_size(saved); i++) {
        const char *part = json_string_value(json_array_get(saved, i));
        size_t n = strlen(part);
        for (const char *p = module; n && p + n <= module + n_module; p++)
            if (strncmp(p, part, n) == 0 && (p == module || p[-1] == '.') &&
                (p + n == module + n_module || p[n] == '.'))
                return true;
    }
    return false;
}

const sac_checkpoint_tensor *sac_adapter_replacement(const sac_adapter *a, const char *name, bool *is_own) {
    const char *dot = strrchr(name, '.');
    char other[NAME_BYTES];
    if (a->is_gguf) return NULL;
    sac_lora unused;
    int n_module = dot ? (int)(dot - name) : 0;
    bool inside = n_module && find_pair(a, name, n_module, &unused); /* peft put the module into its own */
    int n = snprintf(other, sizeof other, PREFIX "%.*s%s%s", n_module, name, inside ? ".base_layer" : "",
                     name + n_module);
    *is_own = is_saved(a, name, n_module);
    return n > 0 && (size_t)n < sizeof other ? use(a, sac_checkpoint_find(&a->tensors, other)) : NULL;
}

bool sac_adapter_base_name(const sac_adapter *a, int i, char *name, size_t name_bytes) {
    static const char *const ends[][2] = {
        {".lora_A.weight", ".weight"},
        {".lora_B.weight", ".weight"},
        {".lora_embedding_A", ".weight"},
        {".lora_embedding_B", ".weight"},
        {".lora_magnitude_vector", ".weight"},
        {".lora_magnitude_vector.weight", ".weight"},
        {".base_layer.weight", ".weight"},
        {".base_layer.bias", ".bias"},
        {"", ""},
    };
    const char *own = a->tensors.tensors[i].name;
    size_t skip = strlen(PREFIX), n = strlen(own);
    if (n < skip || strncmp(own, PREFIX, skip) != 0) return false;
    size_t k = 0;
    while (n - skip < strlen(ends[k][0]) || strcmp(own + n - strlen(ends[k][0]), ends[k][0]) != 0) k++;
    int used =
        snprintf(name, name_bytes, "%.*s%s", (int)(n - skip - strlen(ends[k][0])), own + skip, ends[k][1]);
    return used > 0 && (size_t)used < name_bytes;
}
