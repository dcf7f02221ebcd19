/* answers_groups.h - groups of cases of answers_probe, each over the model that is open. */
#ifndef ANSWERS_GROUPS_H
#define ANSWERS_GROUPS_H

#include "answers_session.h"

/* Every setting after a prompt of tokens, and after pictures where the model sees; on the demo model with a
 * look at whether it acted. */
void group_settings(probe *p);
/* Settings of steps and of stored rows, with so many tokens that blocks fill and rows are evicted. */
void group_long_answers(probe *p);
/* Every setting with logits of all rows of a prompt, a second prompt behind steps, and once more after a
 * reset. */
void group_appended(probe *p);
/* 1, 2, 3, 5 and 8 sessions of mixed lengths, with one method and with several. */
void group_batches(probe *p);
/* Another question about the same picture or video, and a conversation that goes on. */
void group_reuse(probe *p);
/* A session that begins and steps during another's prefill; two in threads of their own; one that was
 * cancelled and asks again. */
void group_between(probe *p);
/* samples/drawn's lines on a video of a thousand tokens. */
void group_drawn(probe *p);
void group_sampling(probe *p);
/* A prompt of prose over several chunks. */
void group_long_text(probe *p);
/* The same answers while the weight that methods leave out is measured. */
void group_measured(probe *p);
/* Pixels as the tower takes them, places of visual tokens, and the answer, for many files and requests. */
void group_media(probe *p);
/* Token ids of texts, and of a conversation. */
void group_prompts(probe *p);
/* Token ids of a conversation in the model's chat format. */
void group_conversation(probe *p);
/* A picture and tokens, with a model that was opened otherwise. */
void group_variant(probe *p);

#endif
