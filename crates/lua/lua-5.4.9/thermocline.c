/*
** What the crate calls besides the interface of Lua.
*/

#define thermocline_c
#define LUA_CORE

#include "lprefix.h"

#include <string.h>

#include "lua.h"

#include "lauxlib.h"
#include "ldebug.h"
#include "ldo.h"
#include "lgc.h"
#include "lobject.h"
#include "lstate.h"

_Thread_local size_t thermocline_steps = 0;

/* Steps between two looks at the budget. */
#define STEPS_OF_A_LOOK	4096

void thermocline_spend (lua_State *L, size_t steps) {
  thermocline_steps += steps;
  if (thermocline_steps >= STEPS_OF_A_LOOK && L->hook != NULL)
    L->hook(L, NULL);
}

/* Memory was refused for good. The allocator hears of it by a request that it cannot grant, so that no script
** goes on as if nothing had happened: where memory ends is another place on another day. */
l_noret thermocline_memory_error (lua_State *L) {
  (*G(L)->frealloc)(G(L)->ud, NULL, 0, ~(size_t)0);
  luaD_throw(L, LUA_ERRMEM);
}

/* Takes what was counted. */
size_t thermocline_take_steps (void) {
  size_t steps = thermocline_steps;
  thermocline_steps = 0;
  return steps;
}

/* The line that runs in the innermost function whose source has this name; 0 if there is none. */
int thermocline_line (lua_State *L, const char *source) {
  CallInfo *ci;
  for (ci = L->ci; ci != &L->base_ci; ci = ci->previous) {
    thermocline_steps++;
    if (isLua(ci)) {
      const Proto *p = ci_func(ci)->p;
      if (p->source != NULL && strcmp(getstr(p->source), source) == 0)
        return luaG_getfuncline(p, pcRel(ci->u.l.savedpc, p));
    }
  }
  return 0;
}

/* A userdata whose block begins with what is called when it is freed. */
void *thermocline_new_user (lua_State *L, size_t size) {
  void *block = lua_newuserdatauv(L, size, 0);
  l_setbit(uvalue(s2v(L->top.p - 1))->marked, THERMOCLINE_DROPPED);
  return block;
}

/* The block of such a userdata, or NULL. */
void *thermocline_to_user (lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA)
    return NULL;
  else {
    Udata *u = uvalue(s2v(L->ci->func.p + index));
    return testbit(u->marked, THERMOCLINE_DROPPED) ? getudatamem(u) : NULL;
  }
}
