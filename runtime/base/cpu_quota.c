#define _GNU_SOURCE
#include "cpu_quota.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_PATH 4096

/* Numbers of a small file; "max" counts as -1. How many there were. */
static int read_numbers(const char *folder, const char *name, double *to, int n) {
    char path[MAX_PATH + 64], text[64];
    int count = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    while (count < n && fscanf(f, "%63s", text) == 1) {
        double value;
        if (strcmp(text, "max") == 0)
            value = -1;
        else if (sscanf(text, "%lf", &value) != 1)
            break;
        to[count++] = value;
    }
    fclose(f);
    return count;
}

/* Processors that one cgroup is limited to; 0 = not limited. */
static double cpu_limit_of(const char *folder, bool is_v2) {
    double quota[2] = {-1, 0};
    if (is_v2) {
        if (read_numbers(folder, "cpu.max", quota, 2) < 2) return 0;
    } else if (read_numbers(folder, "cpu.cfs_quota_us", &quota[0], 1) < 1 ||
               read_numbers(folder, "cpu.cfs_period_us", &quota[1], 1) < 1)
        return 0;
    return quota[0] > 0 && quota[1] > 0 ? quota[0] / quota[1] : 0;
}

/* Bytes that one cgroup is limited to; 0 = not limited. */
static double memory_limit_of(const char *folder, bool is_v2) {
    double most = -1;
    return read_numbers(folder, is_v2 ? "memory.max" : "memory.limit_in_bytes", &most, 1) == 1 && most > 0 ? most : 0;
}

typedef double (*limit_fn)(const char *folder, bool is_v2);

/* From the cgroup up to the root of the mount. In a container the path may be the host's, which is not seen
 * from inside: then only the root is there to be read. */
static double tightest(const char *mount, const char *path, bool is_v2, limit_fn limit_of) {
    char folder[MAX_PATH];
    int n = snprintf(folder, sizeof folder, "%s%s", mount, path);
    if (n < 0 || n >= (int)sizeof folder) return 0;
    double least = 0;
    for (size_t end = (size_t)n, root = strlen(mount);;) {
        double limit = limit_of(folder, is_v2);
        if (limit > 0 && (least == 0 || limit < least)) least = limit;
        if (end <= root) return least;
        while (end > root && folder[--end] != '/') continue;
        folder[end] = 0;
    }
}

static double smaller(double a, double b) {
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* Of the controller of that name. */
static double limit_at(const char *process_file, const char *root, const char *controller, limit_fn limit_of) {
    char line[MAX_PATH], mount[MAX_PATH];
    double quota = 0;
    FILE *f = fopen(process_file, "re");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) { /* "0::/path", or "4:cpu,cpuacct:/path" */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        controllers++;
        bool is_v2 = !*controllers;
        if (is_v2) {
            quota = smaller(quota, tightest(root, path, true, limit_of));
            continue;
        }
        bool has_it = false;
        char names[256];
        snprintf(names, sizeof names, "%s", controllers);
        for (char *save, *name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save))
            has_it |= strcmp(name, controller) == 0;
        if (!has_it) continue;
        int n = snprintf(mount, sizeof mount, "%s/%s", root, controllers);
        if (n > 0 && n < (int)sizeof mount) quota = smaller(quota, tightest(mount, path, false, limit_of));
        n = snprintf(mount, sizeof mount, "%s/%s", root, controller);
        if (n > 0 && n < (int)sizeof mount) quota = smaller(quota, tightest(mount, path, false, limit_of));
    }
    fclose(f);
    return quota;
}

double sac_cpu_quota_at(const char *process_file, const char *root) {
    return limit_at(process_file, root, "cpu", cpu_limit_of);
}

double sac_memory_limit_at(const char *process_file, const char *root) {
    return limit_at(process_file, root, "memory", memory_limit_of);
}

double sac_usable_memory(void) {
    double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return smaller(all, sac_memory_limit_at("/proc/self/cgroup", "/sys/fs/cgroup"));
}

double sac_cpu_quota(void) {
    return sac_cpu_quota_at("/proc/self/cgroup", "/sys/fs/cgroup");
}

int sac_usable_processors(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    double quota = sac_cpu_quota();
    if (quota > 0 && quota < n) n = (int)quota;
    return n < 1 ? 1 : n;
}
