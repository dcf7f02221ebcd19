#include "frame.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FRAMES = 1 << 18 };

const grammar_node *machine_node(const machine_try_state *t, int32_t node) {
    return &t->m->g->nodes[node];
}

int machine_depth(const machine_try_state *t, int32_t frame) {
    return frame < 0 ? 0 : t->m->frames[frame].depth;
}

bool machine_has_room(const machine_try_state *t, int depth, int32_t node) {
    return depth + t->m->g->nodes[node].need <= t->m->g->max_depth;
}

bool machine_grow(machine *m) {
    int room = m->room ? 2 * m->room : 256;
    if (room > MAX_FRAMES) return false;
    machine_frame *frames = realloc(m->frames, (size_t)room * sizeof *frames);
    if (frames) m->frames = frames;
    uint32_t *advanced = frames ? realloc(m->advanced, (size_t)room * sizeof *advanced) : NULL;
    if (advanced) m->advanced = advanced;
    if (frames && advanced) m->room = room;
    return frames && advanced;
}

static uint32_t hash(const machine_frame *f) {
    uint64_t words[sizeof *f / 8], h = 0;
    memcpy(words, f, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        h = (h ^ words[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return (uint32_t)(h >> 32) & (MACHINE_KNOWN_FRAMES - 1);
}

/* Equal frames are one, as far as they are remembered, so that readings that have come to the same do not multiply. */
int32_t machine_push(machine_try_state *t, const machine_frame *f) {
    machine *m = t->m;
    int32_t *known = &m->known[hash(f)];
    if (*known < m->n_frames && !memcmp(&m->frames[*known], f, sizeof *f)) return *known;
    if (m->n_frames == m->room && !machine_grow(m)) return FRAME_NO_ROOM;
    m->advanced[m->n_frames] = 0;
    m->frames[m->n_frames] = *f;
    return *known = m->n_frames++;
}

void machine_go_on(machine_try_state *t, int32_t frame) {
    machine *m = t->m;
    if (frame == FRAME_NO_ROOM || t->n == MACHINE_MAX_READINGS) return;
    for (int i = 0; i < t->n; i++)
        if (m->tops[t->begin + i] == frame) return;
    m->tops[t->begin + t->n++] = frame;
}

void machine_put(machine_try_state *t, const machine_frame *f) {
    machine_go_on(t, machine_push(t, f));
}
