/*
** What Thermocline changes in Lua. Everything else that differs from Lua 5.4.9 is marked with
** "thermocline" where it stands.
**
** A procedure runs again when the log is replayed, on another day and perhaps another machine, and has
** to do the same: nothing here may depend on addresses, clocks, locales or when memory is collected.
** And a procedure must end: work that no instruction of Lua's machine stands for counts as steps.
*/

#if !defined(thermocline_h)
#define thermocline_h

#include <math.h>
#include <stddef.h>

struct lua_State;

/* Steps done in this thread since they were last taken into account. */
extern _Thread_local size_t thermocline_steps;

/* Counts steps; after a few thousand the machine's hook looks at the budget, and may raise an error. */
extern void thermocline_spend (struct lua_State *L, size_t steps);

/* Powers with whole exponents by multiplication, which is the same everywhere; pow is as each C
** library does it. */
static inline double thermocline_power (double base, double exponent) {
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

#endif
