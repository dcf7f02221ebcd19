/* fake_cudnn.c - a library that has cuDNN's functions by name and does nothing: for test_driver_calls, which asks what is made
 * of its version. */
#include <stddef.h>
#include <stdlib.h>

size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) {
    const char *version = getenv("FAKE_CUDNN_VERSION");
    return version ? (size_t)atol(version) : 0;
}

#define NOTHING(name)                                                                                        \
    int cudnn##name(void);                                                                                   \
    int cudnn##name(void) {                                                                                  \
        return 0;                                                                                            \
    }
NOTHING(Create)
NOTHING(Destroy)
NOTHING(SetStream)
NOTHING(GetErrorString)
NOTHING(BackendCreateDescriptor)
NOTHING(BackendDestroyDescriptor)
NOTHING(BackendSetAttribute)
NOTHING(BackendGetAttribute)
NOTHING(BackendFinalize)
NOTHING(BackendExecute)
