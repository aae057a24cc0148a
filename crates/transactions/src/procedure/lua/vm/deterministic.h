/* Included before every file of Lua (see build.rs).
 *
 * A procedure runs again when the log is replayed, on another day and perhaps another machine, and has
 * to do the same. What Lua itself takes from its surroundings is taken away from it here. */

#if !defined(thermocline_deterministic_h)
#define thermocline_deterministic_h

/* Strings hash with a seed made of the time and of addresses. How tables grow follows from it, and
 * what # says of a table with holes from that. */
#define luai_makeseed(L) 0x74686572u

/* Powers with whole exponents by multiplication, which is the same everywhere; pow is as each C
 * library does it. */
#define luai_numpow(L, a, b) ((void)(L), thermocline_power((a), (b)))

#define lua_getlocaledecpoint() '.'

/* As the files themselves say it, which include these headers later. */
#define LUA_CORE

#include "lprefix.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lua.h"

#include "ltm.h"

static inline double thermocline_power(double base, double exponent) {
  if (exponent == 0.5)
    return sqrt(base);
  if (exponent == floor(exponent) && fabs(exponent) <= 1024) {
    unsigned count = (unsigned)fabs(exponent);
    double power = 1;
    for (; count != 0; count >>= 1, base *= base)
      if (count & 1)
        power *= base;
    return exponent < 0 ? 1 / power : power;
  }
  return pow(base, exponent);
}

/* The collector is not to be seen: no table is weak, whatever its __mode. */
#undef gfasttm
#define gfasttm(g, et, e) \
  ((et) == NULL || (e) == TM_MODE ? NULL \
   : ((et)->flags & (1u << (e))) ? NULL : luaT_gettm(et, e, (g)->tmname[e]))

/* The sign of what is no number differs between processors. */
#undef lua_number2str
#define lua_number2str(s, sz, n) \
  ((n) != (n) ? l_sprintf((s), (sz), "%s", "nan") : l_sprintf((s), (sz), LUA_NUMBER_FMT, (LUAI_UACNUMBER)(n)))

/* Text compares byte by byte, as in SQL. */
#define strcoll strcmp

#endif
