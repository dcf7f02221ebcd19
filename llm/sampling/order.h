/* order.h - ids by falling keys. */
#ifndef SAC_LLM_ORDER_H
#define SAC_LLM_ORDER_H

#include <stdint.h>

/* The ids of `from` [n] to `to` [n] by falling keys[id], in the order they had where these are equal; what
 * `from` holds afterwards is of no use. No key may be NaN. */
void sac_order_falling(const float *keys, int32_t *from, int32_t *to, int n);

#endif
