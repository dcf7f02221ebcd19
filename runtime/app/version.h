/* version.h - what `saccade --version` prints. */
#ifndef APP_VERSION_H
#define APP_VERSION_H

/* To stdout: version and commit, then a line for each thing that differs from build to build. */
void version_print(void);

#endif
