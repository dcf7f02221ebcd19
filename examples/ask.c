/* ask.c - the smallest program: ask MODEL PICTURE QUESTION */
#include <saccade/saccade.h>

#include <stdio.h>

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: ask MODEL PICTURE QUESTION\n");
        return 64;
    }
    sac_model *model = NULL;
    sac_session *session = NULL;
    sac_result result;
    sac_error err;
    sac_part parts[] = {{.kind = SAC_PART_IMAGE, .path = argv[2]}, {.kind = SAC_PART_TEXT, .text = argv[3]}};
    sac_message question = {.role = "user", .parts = parts, .n_parts = 2};
    sac_status st = sac_model_open(&model, argv[1], NULL, &err);
    if (st == SAC_OK) st = sac_session_create(&session, model, NULL, &err);
    if (st == SAC_OK) st = sac_session_generate(session, &question, 1, NULL, NULL, &result, &err);
    if (st == SAC_OK)
        puts(result.text);
    else
        fprintf(stderr, "ask: %s\n", err.text);
    sac_session_free(session);
    sac_model_free(model);
    return sac_status_exit_code(st);
}
