#include "linear_float_tmpl.h"
