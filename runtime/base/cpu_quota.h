/* cpu_quota.h - how many processors' time the kernel grants this process, which in a container is often less
 * than the processors it sees. Threads beyond that number are throttled together, in the middle of an op that
 * waits for all of them. */
#ifndef SAC_BASE_CPU_QUOTA_H
#define SAC_BASE_CPU_QUOTA_H

/* The tightest limit on the way from this process's cgroup to the root, in processors; 0 = none. cgroups of
 * version 2 (cpu.max) and 1 (cpu.cfs_quota_us). */
double sac_cpu_quota(void);

/* The same with /proc/self/cgroup and /sys/fs/cgroup elsewhere, for tests. */
double sac_cpu_quota_at(const char *process_file, const char *root);

/* Processors to use: those that may be used by affinity, at most the quota rounded down, at least 1. */
int sac_usable_processors(void);

/* The tightest limit of memory on the same way, in bytes; 0 = none. memory.max of version 2, memory.limit_in_bytes of 1. */
double sac_memory_limit_at(const char *process_file, const char *root);

/* Bytes of memory that this process may use: the machine's, or the limit where that is less. */
double sac_usable_memory(void);

#endif
