/* describe.c - asks the model of a folder about a picture: describe MODEL PICTURE [QUESTION] */
#include <saccade/saccade.h>

#include <stdio.h>

static bool on_text(void *ctx, const char *text, size_t n_bytes) {
    (void)ctx;
    return fwrite(text, 1, n_bytes, stdout) == n_bytes && !fflush(stdout);
}

static sac_status describe(sac_model *model, const char *picture, const char *text, sac_error *err) {
    sac_session *session;
    sac_part parts[] = {{.kind = SAC_PART_IMAGE, .path = picture}, {.kind = SAC_PART_TEXT, .text = text}};
    sac_message question = {.role = "user", .parts = parts, .n_parts = 2};
    sac_events events = {.text = on_text};
    sac_result result;
    sac_status st = sac_session_create(&session, model, NULL, err);
    if (st != SAC_OK) return st;
    st = sac_session_generate(session, &question, 1, NULL, &events, &result, err);
    sac_session_free(session);
    puts("");
    return st;
}

int main(int argc, char **argv) {
    sac_model *model;
    sac_error err;
    if (argc < 3) {
        fprintf(stderr, "usage: describe MODEL PICTURE [QUESTION]\n");
        return 64;
    }
    sac_status st = sac_model_open(&model, argv[1], NULL, &err);
    if (st == SAC_OK) {
        st = describe(model, argv[2], argc > 3 ? argv[3] : "Describe the image.", &err);
        sac_model_free(model);
    }
    if (st != SAC_OK) fprintf(stderr, "describe: %s\n", err.text);
    return sac_status_exit_code(st);
}
