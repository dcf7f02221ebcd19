#include "safetensors.h"

#include "json.h"

#include <stdlib.h>

#define MAX_SHARDS 4096
#define PATH_BYTES 4096

static const struct {
    const char *name, *lower;
    int bits; /* F4 is two to a byte */
    int dtype;
} file_types[] = {
    {"F32", "f32", 32, SAC_DTYPE_F32},
    {"F16", "f16", 16, SAC_DTYPE_F16},
    {"BF16", "bf16", 16, SAC_DTYPE_BF16},
    {"F64", "f64", 64, -1},
    {"I64", "i64", 64, -1},
    {"U64", "u64", 64, -1},
    {"I32", "i32", 32, -1},
    {"U32", "u32", 32, -1},
    {"I16", "i16", 16, -1},
    {"U16", "u16", 16, -1},
    {"I8", "i8", 8, SAC_DTYPE_I8},
    {"U8", "u8", 8, -1},
    {"BOOL", "bool", 8, -1},
    {"F8_E4M3", "f8_e4m3", 8, -1},
    {"F8_E5M2", "f8_e5m2", 8, -1},
    {"F8_E8M0", "f8_e8m0", 8, -1},
    {"F4", "f4", 4, -1},
    {"C64", "c64", 64, -1},
};

/* Bytes of the shape at so many bits an element; 0 on overflow of either. */
static int shape_bytes(const sac_checkpoint_tensor *t, int bits, size_t *n_bytes) {
    size_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        if (!sac_mul_size(n, (size_t)t->dim[i], &n)) return 0;
    size_t n_bits;
    if (!sac_mul_size(n, (size_t)bits, &n_bits) || n_bits % 8 != 0) return 0;
    *n_bytes = n_bits / 8;
    return 1;
}

static sac_status read_shape(sac_checkpoint_tensor *t, const json_t *shape, sac_error *err) {
    size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > SAC_CHECKPOINT_MAX_DIMS)
        return sac_fail(err, SAC_BAD_FILE, "\"shape\" must be a list of at most %d sizes",
                        SAC_CHECKPOINT_MAX_DIMS);
    t->n_dims = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *d = json_array_get(shape, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return sac_fail(err, SAC_BAD_FILE, "size %zu of \"shape\" must be an integer of at least 0", i);
        t->dim[i] = json_integer_value(d);
    }
    return SAC_OK;
}

static sac_status read_entry(sac_checkpoint_tensor *t, const json_t *entry, const uint8_t *buffer,
                             size_t buffer_bytes, sac_error *err) {
    if (!json_is_object(entry)) return sac_fail(err, SAC_BAD_FILE, "must be an object");
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    if (!type) return sac_fail(err, SAC_BAD_FILE, "\"dtype\" must be a string");
    size_t k = 0;
    while (k < SAC_COUNT(file_types) && strcmp(type, file_types[k].name) != 0) k++;
    if (k == SAC_COUNT(file_types)) return sac_fail(err, SAC_BAD_FILE, "unknown dtype \"%.20s\"", type);
    t->dtype = file_types[k].dtype;
    t->dtype_name = file_types[k].lower;
    SAC_TRY(read_shape(t, json_object_get(entry, "shape"), err));

    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return sac_fail(err, SAC_BAD_FILE, "\"data_offsets\" must be two integers");
    int64_t begin = json_integer_value(b), end = json_integer_value(e);
    if (begin < 0 || end < begin || (uint64_t)end > buffer_bytes)
        return sac_fail(err, SAC_BAD_FILE,
                        "bytes %lld to %lld are outside the file's %zu bytes of tensors: download "
                        "incomplete, fetch it again",
                        (long long)begin, (long long)end, buffer_bytes);
    size_t want;
    char shape[SAC_SHAPE_TEXT];
    if (!shape_bytes(t, file_types[k].bits, &want) || want != (size_t)(end - begin))
        return sac_fail(err, SAC_BAD_FILE, "%lld bytes, but shape %s of %s does not take that many",
                        (long long)(end - begin), sac_shape_text(shape, t->dim, t->n_dims), t->dtype_name);
    t->data = buffer + begin;
    t->n_bytes = want;
    return SAC_OK;
}

sac_status sac_safetensors_parse(sac_checkpoint *c, int file, const uint8_t *data, size_t n_bytes,
                                 size_t *header_bytes, sac_error *err) {
    if (n_bytes < 8)
        return sac_fail(err, SAC_BAD_FILE,
                        "%zu bytes, too short for safetensors: download incomplete, fetch it again", n_bytes);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | data[i];
    if (length > SAC_SAFETENSORS_MAX_HEADER || length > n_bytes - 8)
        return sac_fail(
            err, SAC_BAD_FILE,
            "header of %llu bytes in a file of %zu (limit %zu): not safetensors, or truncated (download "
            "incomplete: fetch it again)",
            (unsigned long long)length, n_bytes, SAC_SAFETENSORS_MAX_HEADER);
    json_t *header;
    SAC_TRY(sac_json_parse(&header, (const char *)data + 8, (size_t)length, err));
    const uint8_t *buffer = data + 8 + length;
    size_t buffer_bytes = n_bytes - 8 - (size_t)length;
    if (header_bytes) *header_bytes = n_bytes - buffer_bytes;
    sac_status st = SAC_OK;
    if (!json_is_object(header)) st = sac_fail(err, SAC_BAD_FILE, "the header is not a JSON object");

    int first = c->n_tensors;
    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry) {
        if (st != SAC_OK) break;
        if (strcmp(name, "__metadata__") == 0) continue;
        sac_checkpoint_tensor t = {.file = file};
        st = read_entry(&t, entry, buffer, buffer_bytes, err);
        if (st != SAC_OK)
            sac_fail_prefix(err, st, "tensor %.100s", name);
        else
            st = sac_checkpoint_add(c, &t, name, strlen(name), err);
    }
    json_decref(header);
    return st == SAC_OK ? sac_checkpoint_check_disjoint(c, first, err) : st;
}

static sac_status add_shard(sac_checkpoint *c, const char *path, sac_error *err) {
    if (!sac_file_exists(path))
        return sac_fail(err, SAC_NOT_FOUND, "%s: No such file: download incomplete, fetch it again", path);
    SAC_TRY(sac_checkpoint_add_file(c, path, err));
    sac_checkpoint_file *f = &c->files[c->n_files - 1];
    if (sac_file_is_lfs_pointer(&f->map))
        return sac_fail(err, SAC_BAD_FILE,
                        "%s: a Git LFS pointer, not the weights: run \"git lfs pull\" in its folder", path);
    sac_status st =
        sac_safetensors_parse(c, c->n_files - 1, f->map.data, f->map.n_bytes, &f->header_bytes, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "%s", path);
}

sac_status sac_safetensors_open_file(sac_checkpoint *c, const char *path, sac_error *err) {
    SAC_TRY(add_shard(c, path, err));
    sac_status st = sac_checkpoint_seal(c, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "%s", path);
}

sac_status sac_safetensors_metadata(const sac_checkpoint *c, int file, const char *key, char *text, size_t capacity,
                                    sac_error *err) {
    const sac_checkpoint_file *f = &c->files[file];
    json_t *header;
    text[0] = 0;
    SAC_TRY(sac_json_parse(&header, (const char *)f->map.data + 8, f->header_bytes - 8, err));
    const json_t *value = json_object_get(json_object_get(header, "__metadata__"), key);
    const bool fits = json_is_string(value) && json_string_length(value) < capacity;
    if (fits) memcpy(text, json_string_value(value), json_string_length(value) + 1);
    json_decref(header);
    if (!value || fits) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"__metadata__\": \"%s\" is not a string of less than %zu bytes", key,
                    capacity);
}

/* A file name of the same folder, nothing that walks out of it. */
static int plain_name(const char *s) {
    return *s && !strchr(s, '/') && strcmp(s, ".") != 0 && strcmp(s, "..") != 0;
}

static int find_file(const sac_checkpoint *c, const char *path) {
    for (int i = 0; i < c->n_files; i++)
        if (strcmp(c->files[i].path, path) == 0) return i;
    return -1;
}

static sac_status open_shards(sac_checkpoint *c, const char *folder, const json_t *map, sac_error *err) {
    const char *name;
    json_t *value;
    char path[PATH_BYTES];
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        const char *shard = json_string_value(value);
        if (!shard || !plain_name(shard))
            return sac_fail(err, SAC_BAD_FILE, "\"weight_map\" gives %.80s no plain file name", name);
        SAC_TRY(sac_path_join(path, sizeof path, folder, shard, err));
        if (find_file(c, path) >= 0) continue;
        if (c->n_files == MAX_SHARDS)
            return sac_fail(err, SAC_BAD_FILE, "\"weight_map\" names more than %d files", MAX_SHARDS);
        SAC_TRY(add_shard(c, path, err));
    }
    SAC_TRY(sac_checkpoint_seal(c, err));
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        SAC_TRY(sac_path_join(path, sizeof path, folder, json_string_value(value), err));
        const sac_checkpoint_tensor *t = sac_checkpoint_find(c, name);
        if (!t || strcmp(c->files[t->file].path, path) != 0)
            return sac_fail(err, SAC_BAD_FILE, "\"weight_map\" says that %.80s is in %.80s, but it is not",
                            name, json_string_value(value));
    }
    return SAC_OK;
}

sac_status sac_safetensors_open_folder(sac_checkpoint *c, const char *folder, sac_error *err) {
    char path[PATH_BYTES];
    SAC_TRY(sac_path_join(path, sizeof path, folder, "model.safetensors.index.json", err));
    if (sac_file_exists(path)) {
        json_t *index;
        SAC_TRY(sac_json_parse_file(&index, path, err));
        const json_t *map = json_object_get(index, "weight_map");
        sac_status st = json_is_object(map) ? open_shards(c, folder, map, err)
                                            : sac_fail(err, SAC_BAD_FILE, "\"weight_map\" must be an object");
        json_decref(index);
        return st == SAC_OK ? st : sac_fail_prefix(err, st, "%s", path);
    }
    SAC_TRY(sac_path_join(path, sizeof path, folder, "model.safetensors", err));
    if (!sac_file_exists(path))
        return sac_fail(
            err, SAC_NOT_FOUND,
            "%s: no model.safetensors and no model.safetensors.index.json; weights in other formats "
            "must be converted (transformers: save_pretrained)",
            folder);
    return sac_safetensors_open_file(c, path, err);
}
