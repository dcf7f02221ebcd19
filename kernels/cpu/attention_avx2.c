#include "attention_tmpl.h"
