/*
** thermocline: classes of characters that no locale changes; included after <ctype.h>.
*/

#if !defined(ascii_h)
#define ascii_h

#undef isalpha
#undef iscntrl
#undef isdigit
#undef isgraph
#undef islower
#undef ispunct
#undef isspace
#undef isupper
#undef isalnum
#undef isxdigit
#undef tolower
#undef toupper

#define isdigit(c)	((unsigned)(c) - '0' < 10)
#define islower(c)	((unsigned)(c) - 'a' < 26)
#define isupper(c)	((unsigned)(c) - 'A' < 26)
#define isalpha(c)	(islower((unsigned)(c) | 32) && (unsigned)(c) < 128)
#define isalnum(c)	(isalpha(c) || isdigit(c))
#define isxdigit(c)	(isdigit(c) || ((unsigned)(c) | 32) - 'a' < 6)
#define isgraph(c)	((unsigned)(c) - 33 < 94)
#define ispunct(c)	(isgraph(c) && !isalnum(c))
#define isspace(c)	((c) == ' ' || (unsigned)(c) - '\t' < 5)
#define iscntrl(c)	((unsigned)(c) < 32 || (c) == 127)
#define tolower(c)	(isupper(c) ? (c) + 32 : (c))
#define toupper(c)	(islower(c) ? (c) - 32 : (c))

#endif
