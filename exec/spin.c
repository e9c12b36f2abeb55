/* What threads have spent awake while they waited. */
#include "exec/spin.h"

_Thread_local double spin_spent_s;
