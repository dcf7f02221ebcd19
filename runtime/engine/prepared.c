#include "prepared.h"

#include "dialect.h"
#include "hash.h"
#include "picture.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

/* A picture of one size makes one set of patch rows, so these stand for it; its size goes in because the
 * prompt's tokens follow from that, too. */
static sac_status hash_patches(sac_prepared *p, sac_error *err) {
    sac_sha256 *h;
    SAC_TRY(sac_sha256_open(&h, err));
    int32_t head[] = {p->plan.width, p->plan.height, p->plan.is_video_frame};
    sac_sha256_update(h, "prepared", 8);
    sac_sha256_update(h, head, sizeof head);
    sac_sha256_update(h, p->patches, p->n_bytes);
    sac_sha256_finish(h, p->digest.hash);
    return SAC_OK;
}

/* A frame whose size is not known yet: its pixels. */
static sac_status keep(sac_prepared **out, const sac_model *m, const sac_image *image, sac_error *err) {
    size_t n_bytes = (size_t)image->width * (size_t)image->height * 3;
    sac_prepared *p = malloc(sizeof *p + n_bytes);
    if (!p)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a frame of %d x %d pixels", image->width,
                        image->height);
    *p = (sac_prepared){.model = m, .n_bytes = n_bytes};
    p->plan = (sac_visual_plan){.width = image->width, .height = image->height, .is_video_frame = true};
    memcpy(p->patches, image->rgb, n_bytes);
    sac_status st = hash_patches(p, err);
    if (st == SAC_OK) *out = p;
    if (st != SAC_OK) free(p);
    return st;
}

/* What the picture becomes: as a frame, or alone and, where that makes a difference, as one of several. */
static sac_status plan_all(const sac_processor_config *c, const sac_image *image, bool is_frame,
                           sac_visual_plan plan[2], int *n, sac_error *err) {
    *n = 1;
    if (is_frame) {
        SAC_TRY(sac_processor_plan_frame(c, image->width, image->height, 0, &plan[0], err));
        plan[0].frames = 1; /* the others of its patches are not known yet */
        return SAC_OK;
    }
    SAC_TRY(sac_processor_plan(c, image->width, image->height, false, &plan[0], err));
    if (!c->dialect->tells_among) return SAC_OK;
    *n = 2;
    return sac_processor_plan(c, image->width, image->height, true, &plan[1], err);
}

static sac_status cut(sac_prepared **out, const sac_model *m, const sac_image *image, bool is_frame,
                      sac_error *err) {
    const sac_processor_config *c = &m->loaded.processor;
    sac_visual_plan plan[2];
    int n;
    if (is_frame && c->dialect->counts_frames) return keep(out, m, image, err);
    SAC_TRY(plan_all(c, image, is_frame, plan, &n, err));
    size_t first = sac_visual_bytes(&plan[0], plan[0].n_tiles);
    size_t n_bytes = first + (n > 1 ? sac_visual_bytes(&plan[1], plan[1].n_tiles) : 0);
    sac_prepared *p = malloc(sizeof *p + n_bytes);
    if (!p) return sac_fail(err, SAC_NO_MEMORY, "no memory for %d tiles", plan[0].n_tiles);
    *p = (sac_prepared){
        .model = m, .plan = plan[0], .is_cut = true, .n_bytes = n_bytes, .among_at = n > 1 ? first : 0};
    sac_status st =
        (is_frame ? sac_processor_cut_frame : sac_processor_cut)(c, image, &plan[0], p->patches, err);
    if (st == SAC_OK && n > 1) st = sac_processor_cut(c, image, &plan[1], p->patches + first, err);
    if (st == SAC_OK) st = hash_patches(p, err);
    if (st != SAC_OK) {
        free(p);
        return st;
    }
    *out = p;
    return SAC_OK;
}

sac_status sac_prepared_create(sac_prepared **out, const sac_model *m, const sac_part *part, bool is_frame,
                               sac_error *err) {
    *out = NULL;
    bool is_one = part->kind == SAC_PART_IMAGE || part->kind == SAC_PART_PIXELS;
    if (!is_one || sac_part_n_pictures(part) != 1 || part->prepared)
        return sac_fail(err, SAC_BAD_ARGUMENT, "what is prepared must be one picture: a file or pixels");
    SAC_TRY(sac_model_check_vision(m, err));
    SAC_TRY(sac_part_check(part, err));
    sac_picture picture = sac_part_picture(part, 0);
    sac_image image;
    SAC_TRY(sac_picture_open(&image, &picture, err));
    sac_status st = cut(out, m, &image, is_frame, err);
    sac_picture_close(&image, &picture);
    return st;
}

void sac_prepared_free(sac_prepared *p) {
    free(p);
}

size_t sac_prepared_bytes(const sac_prepared *p) {
    return sizeof *p + p->n_bytes;
}

sac_status sac_prepared_check(const sac_prepared *p, const sac_model *m, bool is_frame, sac_error *err) {
    if (p->model != m) return sac_fail(err, SAC_BAD_ARGUMENT, "a picture was prepared for another model");
    if (p->plan.is_video_frame == is_frame) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "a picture was prepared %s a frame of a video, and is used %s one",
                    is_frame ? "not as" : "as", is_frame ? "as" : "not as");
}
