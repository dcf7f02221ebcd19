/* out_resume.h - a file that a later run goes on with. Beside PATH.part lies PATH.part.state: what the file is of, in 64 hexadecimal digits, and
 * how many of its bytes are on the disk for good. */
#ifndef SAC_MODELS_OUT_RESUME_H
#define SAC_MODELS_OUT_RESUME_H

#include "out_file.h"

enum { SAC_OUT_OF_BYTES = 65 };

/* How many bytes of PATH.part a run before has left that wrote the same; 0: none. BAD_ARGUMENT where they are of something else;
 * a state beside an empty PATH.part, or none, says nothing. */
sac_status sac_out_resume_find(const char *path, const char of[SAC_OUT_OF_BYTES], uint64_t *n_bytes, sac_error *err);

/* sac_out_open behind those bytes: f->n_bytes says where. What sac_out_mark has counted stays there after sac_out_abandon. `of` is kept by
 * reference. */
sac_status sac_out_resume(sac_out_file *f, const char *path, const char of[SAC_OUT_OF_BYTES], sac_out_progress *progress, sac_error *err);

/* What a run says of a part that is not its own. */
sac_status sac_out_is_of_another(const char *part, sac_error *err);

#endif
