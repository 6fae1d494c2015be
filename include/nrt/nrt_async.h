/* The name under which programs look for it; all of it is in one header. */
#include "../neuron_mem/nrt.h"
