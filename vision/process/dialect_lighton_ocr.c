/* dialect_lighton_ocr.c - LightOnOCR (Taghadouini et al., arXiv:2601.14251): pictures as Pixtral's (dialect_pixtral.c), whose tokens stand
 * together. See dialect.h. Rules: transformers' PixtralImageProcessor and LightOnOcrProcessor. */
#include "dialect_pixtral.h"

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    SAC_TRY(sac_pixtral_plan(c, p, err));
    p->n_lines = 0;
    return SAC_OK;
}

static void largest(const sac_processor_config *c, bool is_video_frame, sac_visual_plan *p) {
    sac_pixtral_largest(c, is_video_frame, p);
    p->n_lines = 0;
}

/* The image processor's own patches are squares of them, or those of the tower: then sides are rounded up to whole squares all the same,
 * as vLLM does it. transformers 5.24 rounds to patches, and drops an odd row or column of them behind the tower. */
static sac_status check_patch(const sac_processor_config *c, const sac_pixtral_settings *own, const json_t *preprocessor, sac_error *err) {
    const json_t *v = json_object_get(preprocessor, "patch_size"), *object = NULL;
    int64_t w = 16, h = 16; /* the class's */
    if (json_is_integer(v)) {
        SAC_TRY(sac_json_get_int(preprocessor, "patch_size", 1, INT32_MAX, &w, err));
        h = w;
    } else if (v && !json_is_null(v)) {
        SAC_TRY(sac_json_get_object(preprocessor, "patch_size", &object, err));
        SAC_TRY(sac_json_get_int(object, "width", 1, INT32_MAX, &w, err));
        SAC_TRY(sac_json_get_int(object, "height", 1, INT32_MAX, &h, err));
    }
    if (w == h && (w == own->square || w == c->patch_size)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"patch_size\" is %lld x %lld: patches have %d pixels a side and squares of them %d, which alone are supported",
                    (long long)w, (long long)h, c->patch_size, own->square);
}

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor, sac_error *err) {
    SAC_TRY(sac_pixtral_read(c, model, preprocessor, err));
    return check_patch(c, c->own, preprocessor, err);
}

static const char *const classes[] = {"PixtralImageProcessor", NULL};

const sac_dialect sac_dialect_lighton_ocr = {
    .name = "lighton_ocr", .classes = classes, .read = read, .plan = plan, .largest = largest, SAC_PIXTRAL_PICTURES};
