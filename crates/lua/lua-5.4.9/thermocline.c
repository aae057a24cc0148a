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
#include "lstring.h"
#include "ltable.h"
#include "ltm.h"

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

/* What is at a position, which counts from the bottom, or from the top where it is negative; NULL where there is
** nothing. 'index' becomes the position from the bottom. */
static TValue *value_at (lua_State *L, int position, int *index) {
  StkId base = L->ci->func.p;
  int top = cast_int(L->top.p - (base + 1));
  *index = position > 0 ? position : top + 1 + position;
  return *index >= 1 && *index <= top ? s2v(base + *index) : NULL;
}

/* A table at a position, or NULL. */
static Table *table_at (lua_State *L, int position) {
  int index;
  const TValue *value = value_at(L, position, &index);
  return value != NULL && ttistable(value) ? hvalue(value) : NULL;
}

/* Pushes a value, or nil where a table has none. */
static void push (lua_State *L, const TValue *value) {
  if (value == NULL || isempty(value))
    setnilvalue(s2v(L->top.p));
  else
    setobj2s(L, L->top.p, value);
  L->top.p++;
}

/* What a value is and has, at once: for a string its bytes, for a number which of both kinds. */
struct thermocline_value {
  int index;
  int is_integer;
  lua_Integer integer;
  lua_Number number;
  const char *bytes;
  size_t length;
};

/* The type of a value, and what it has. */
static int read_value (const TValue *value, struct thermocline_value *read) {
  switch (ttypetag(value)) {
    case LUA_VTRUE: case LUA_VFALSE:
      read->integer = ttistrue(value);
      break;
    case LUA_VNUMINT:
      read->is_integer = 1;
      read->integer = ivalue(value);
      break;
    case LUA_VNUMFLT:
      read->is_integer = 0;
      read->number = fltvalue(value);
      break;
    case LUA_VSHRSTR: case LUA_VLNGSTR: {
      const TString *text = tsvalue(value);
      read->bytes = getstr(text);
      read->length = tsslen(text);
      break;
    }
    default:
      break;
  }
  return ttype(value);
}

/* The type of the value at a position, and what it has; LUA_TNONE where there is none. */
int thermocline_read (lua_State *L, int position, struct thermocline_value *read) {
  const TValue *value = value_at(L, position, &read->index);
  return value == NULL ? LUA_TNONE : read_value(value, read);
}

/* The type of the value at a position; LUA_TNONE where there is none. */
int thermocline_type (lua_State *L, int position) {
  int index;
  const TValue *value = value_at(L, position, &index);
  return value == NULL ? LUA_TNONE : ttype(value);
}

/* Pushes what a table has of a number, without metamethods; nil if there is no table. */
void thermocline_get_index (lua_State *L, int position, lua_Integer number) {
  Table *table = table_at(L, position);
  push(L, table == NULL ? NULL : luaH_getint(table, number));
}

/* What a table has of a number. */
static const TValue *of_number (Table *table, lua_Integer number) {
  if (l_castS2U(number) - 1u < table->alimit)
    return &table->array[number - 1];
  return luaH_getint(table, number);
}

/* Pushes what a table has of the name with a number among others, or of the number itself, without metamethods, and
** reads it. */
int thermocline_get_named (lua_State *L, int names, int position, lua_Integer number, struct thermocline_value *read) {
  Table *of = table_at(L, names), *table = table_at(L, position);
  const TValue *value = NULL;
  if (of != NULL && table != NULL) {
    /* Most rows are lists. */
    if (!isdummy(table))
      value = luaH_get(table, of_number(of, number));
    if (value == NULL || ttisnil(value))
      value = of_number(table, number);
  }
  push(L, value);
  read->index = cast_int(L->top.p - (L->ci->func.p + 1));
  return read_value(s2v(L->top.p - 1), read);
}

/* Takes a value from the top into a table, under a name; only takes it if there is no table. There is space for the
** name. */
void thermocline_set_field (lua_State *L, int position, const char *name, size_t length) {
  int index;
  const TValue *value = value_at(L, position, &index);
  Table *table;
  if (value == NULL || !ttistable(value) || value == s2v(L->top.p - 1)) {
    L->top.p--;
    return;
  }
  table = hvalue(value);
  setsvalue2s(L, L->top.p, luaS_newlstr(L, name, length));
  L->top.p++;
  luaH_set(L, table, s2v(L->top.p - 1), s2v(L->top.p - 2));
  invalidateTMcache(table);
  luaC_barrierback(L, obj2gco(table), s2v(L->top.p - 2));
  luaC_checkGC(L);
  L->top.p -= 2;
}

/* Pushes a userdata whose block begins with what is called when it is freed, with a metatable that the registry
** has. The metatable has no finalizer. */
void *thermocline_new_user (lua_State *L, size_t size, int metatable) {
  const TValue *found;
  Udata *user;
  luaC_checkGC(L);
  found = luaH_getint(hvalue(&G(L)->l_registry), metatable);
  user = luaS_newudata(L, size, 0);
  setuvalue(L, s2v(L->top.p), user);
  L->top.p++;
  l_setbit(user->marked, THERMOCLINE_DROPPED);
  if (ttistable(found)) {
    user->metatable = hvalue(found);
    luaC_objbarrier(L, user, user->metatable);
  }
  return getudatamem(user);
}

/* The block of such a userdata, or NULL. */
void *thermocline_to_user (lua_State *L, int position, int *index) {
  const TValue *value = value_at(L, position, index);
  if (value == NULL || !ttisfulluserdata(value))
    return NULL;
  else {
    Udata *u = uvalue(value);
    return testbit(u->marked, THERMOCLINE_DROPPED) ? getudatamem(u) : NULL;
  }
}
