/* pixels.c - asks about a picture that is no file: pixels MODEL QUESTION [RED GREEN BLUE]
 *
 * Draws a large square in the middle of a ground of that colour (0 to 255 each), and hands the pixels over as they lie. */
#include <saccade/saccade.h>

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 224, ROW_BYTES = 704 }; /* rows may have a gap between them */

static void draw(uint8_t *rgb, const uint8_t ground[3]) {
    static const uint8_t blue[3] = {30, 60, 220};
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            bool inside = x >= 72 && x < 152 && y >= 72 && y < 152;
            for (int c = 0; c < 3; c++) rgb[y * ROW_BYTES + 3 * x + c] = inside ? blue[c] : ground[c];
        }
}

int main(int argc, char **argv) {
    static uint8_t rgb[SIDE * ROW_BYTES];
    uint8_t ground[3] = {255, 255, 255};
    if (argc != 3 && argc != 6) {
        fprintf(stderr, "usage: pixels MODEL QUESTION [RED GREEN BLUE]\n");
        return 64;
    }
    for (int c = 0; argc == 6 && c < 3; c++) ground[c] = (uint8_t)atoi(argv[3 + c]);
    draw(rgb, ground);

    sac_model *model = NULL;
    sac_session *session = NULL;
    sac_result result;
    sac_error err;
    sac_pixels pixels = {.width = SIDE, .height = SIDE, .rgb = rgb, .row_bytes = ROW_BYTES};
    sac_part parts[] = {{.kind = SAC_PART_PIXELS, .pixels = pixels},
                        {.kind = SAC_PART_TEXT, .text = argv[2]}};
    sac_message question = {.role = "user", .parts = parts, .n_parts = 2};
    sac_status st = sac_model_open(&model, argv[1], NULL, &err);
    if (st == SAC_OK) st = sac_session_create(&session, model, NULL, &err);
    if (st == SAC_OK) st = sac_session_generate(session, &question, 1, NULL, NULL, &result, &err);
    if (st == SAC_OK)
        puts(result.text);
    else
        fprintf(stderr, "pixels: %s\n", err.text);
    sac_session_free(session);
    sac_model_free(model);
    return sac_status_exit_code(st);
}
