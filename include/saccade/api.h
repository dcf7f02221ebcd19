/* saccade/api.h - SAC_API marks what a program that uses Saccade may call; all else in libsaccade.so is hidden. */
#ifndef SACCADE_API_H
#define SACCADE_API_H

#define SAC_API __attribute__((visibility("default")))

#endif
