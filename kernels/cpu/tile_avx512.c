#include "tile_tmpl.h"
