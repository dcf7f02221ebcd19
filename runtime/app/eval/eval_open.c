#define _GNU_SOURCE
#include "eval_open.h"
#include "eval_bench.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Where a set lies; of a set that is a folder, that. */
static char *folder_of(const char *path) {
    struct stat st;
    if (!stat(path, &st) && S_ISDIR(st.st_mode)) return strdup(path);
    const char *slash = strrchr(path, '/');
    return !slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

sac_status eval_task_open(eval_task *t, const settings *s, const eval_set *set, const char *set_path,
                          sac_error *err) {
    *t = (eval_task){
        .set = set, .videos = s->videos, .subtitles = s->subtitles, .reuse = s->reuse, .title = "questions"};
    SAC_TRY(eval_prompt_parse(s->prompt, &t->prompt, err));
    if (t->prompt == EVAL_PROMPT_OWN) t->own_prompt = s->prompt;
    if (set->bench && t->prompt == EVAL_PROMPT_LMMS)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "--prompt lmms-eval is for Video-MME; give %s's as a text with {question}",
                        set->bench->title);
    if (set->bench && s->subtitles)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--subtitles is for Video-MME, not for %s", set->bench->title);
    if (s->retry && !s->out)
        return sac_fail(err, SAC_BAD_ARGUMENT, "--retry needs the --out of the run that has errors in it");
    if (!s->videos && !(t->own_videos = folder_of(set_path))) return sac_fail_no_memory(err);
    if (!s->videos) t->videos = t->own_videos;
    SAC_TRY(settings_check_folder("--videos", t->videos, err));
    return s->subtitles ? settings_check_folder("--subtitles", s->subtitles, err) : SAC_OK;
}

void eval_task_free(eval_task *t) {
    free(t->own_videos);
    t->own_videos = NULL;
}

/* What is not given is the model's own. */
static void choose_sampling(run *r, bool open, const eval_set *set) {
    if (!settings_given(r->s, offsetof(settings, temperature))) r->sampling.temperature = 0;
    if (!settings_given(r->s, offsetof(settings, max_tokens)))
        r->sampling.max_tokens = open ? 64 : set->bench ? set->bench->max_tokens : 16;
}

/* A set without media is one for language models. */
static bool shows_media(const eval_set *set) {
    if (!set->bench) return true;
    for (size_t i = 0; i < set->n_videos; i++)
        for (size_t k = 0; k < set->videos[i].n_questions; k++)
            if (set->videos[i].questions[k].item->n_media) return true;
    return false;
}

sac_status eval_open_model(run *r, const settings *s, const eval_task *t, sac_error *err) {
    SAC_TRY(run_open(r, s, (size_t)s->vision_cache_mib << 20, err));
    if (!r->info.has_vision && shows_media(t->set))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "%s: reads text only; the questions are about pictures or videos", r->model_path);
    choose_sampling(r, eval_prompt_is_open(t->prompt), t->set);
    return SAC_OK;
}
