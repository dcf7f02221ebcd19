/* device_pages.h - addresses apart from memory, of devices that have pages: a table beside the device's own. */
#ifndef SAC_DEVICE_PAGES_H
#define SAC_DEVICE_PAGES_H

#include "device.h"

/* A page is known by a name, under which it can be mapped in several places at a time: all show the same memory. `page` is what
 * page_bytes() said of the pages that are meant. */
typedef struct sac_page_ops {
    /* Runs of pages, each named by the number before plus one, that the process may have mapped of all pools when pages are shared; 0: any
     * number. */
    size_t most_runs;
    /* Whether map takes the place of what is mapped there, and leaves that where it fails: not to be unmapped before. */
    bool maps_over;
    /* Of one of the pages that are to hold n_bytes together; 0: the device has none, and nothing else is asked of it. */
    size_t (*page_bytes)(const sac_device *d, size_t n_bytes);
    /* A range of addresses without memory; n_bytes is a multiple of a page's. */
    sac_status (*reserve)(const sac_device *d, size_t n_bytes, void **at, sac_error *err);
    void (*unreserve)(const sac_device *d, void *at, size_t n_bytes); /* nothing is mapped there */
    /* n >= 1 pages, all of them or none; and back, all that were taken together. */
    sac_status (*take)(const sac_device *d, uint64_t *names, size_t n, size_t page, sac_error *err);
    void (*give)(const sac_device *d, const uint64_t *names, size_t n);
    /* n pages one behind another, after which there is memory as alloc()'s with unknown contents. All of them or none. */
    sac_status (*map)(const sac_device *d, void *at, const uint64_t *names, size_t n, size_t page, sac_error *err);
    /* Nothing that touches them is in flight. False: somewhere they can still be read. */
    bool (*unmap)(const sac_device *d, void *at, size_t n, size_t page);
    void (*rest)(const sac_device *d, uint64_t name, size_t page);       /* nobody has it for now; NULL: that is nothing */
} sac_page_ops;

/* NULL: there are none for its kind. */
const sac_page_ops *sac_page_ops_of(const sac_device *d);

extern const sac_page_ops sac_cpu_pages;
const sac_page_ops *sac_cuda_pages(void); /* in builds with SAC_CUDA */

#endif
