#include "pauses.h"

double serve_pause_room(double target, double step) {
    const double least = step / 4, own = step > SERVE_PAUSE / 2 ? step : SERVE_PAUSE - step;
    if (target <= 0) return own;
    return target - step > least ? target - step : least;
}

double serve_pause_step(double step, double took) {
    const double most = 1.25 * step;
    return step > 0 && took > most ? most : took;
}

double serve_pause_share(double target, double step) {
    const double most = serve_pause_room(target, step);
    return step < most ? step : most;
}

double serve_pause_piece(double target, double step, double since) {
    const double all = serve_pause_room(target, step), least = all / 4, left = all - since;
    return left > least ? left : least;
}

int64_t serve_pause_rows(double target, double step, double row_s, int64_t most) {
    const double n = row_s > 0 ? serve_pause_room(target, step) / row_s : SERVE_PASS_LEAST;
    if (n < SERVE_PASS_LEAST) return 0;
    return n < (double)most ? (int64_t)n : most;
}
