/* cuts.pml: a queue with limit keys of which memory has not room for all rows: each long key is cut at a place of its own.
 *
 * WHAT: the holder of one partition, which is one loop: each of its steps is atomic, and everything else may happen between two pages. Rows 0..3
 *   are of the long key, row 4 of the short one, which never has more than its part of memory (CAP / 2). A row is where pos says in
 *   the order of firing; pages of a scan come in another order (PAGE).
 *   stored, met  the row is written; a sweep or a hint has brought it       mem, open, over  it waits in memory; a worker has it; it has ended
 *   cur[k]       the place of a key, its cursor: what is there or behind it is in the store (NONE: nothing is)
 *   re[k]        the places of which a reload brings the rows again, page by page (NONE: not of this key)
 * RULES
 *   C1 memory is over its share: the longest key loses its last rows, and its cursor is where the first of these stood. Other keys are not cut.
 *   C2 a row that is met is kept if it stands before the cursor of its key, else it stays in the store.
 *   C3 keys of which nothing is left in memory are refilled by one pass: their cursors become the places of the reload. Other keys keep theirs.
 *   C4 a page of the reload brings what was met, stands at or behind the place of its key, and neither is over nor with a worker. C2 holds for it.
 *   C5 a row that is written meanwhile is taken in at once if the reload cannot bring it, else it is left to the next sweep: unmet.
 *   C6 a cancel of a row that is not in memory is kept as one of a row that is: it is over.
 *   C7 the mark stays before what waits, what a worker has, the cursors, and the places of a reload.
 * PROMISES: each row is sent once, or was cancelled and then is not sent; the short key has no row in the store that was met; of a key nothing is
 *   sent past what is behind its cursor; the mark passes no row that is not over; at rest all that is stored is over.
 *
 * RUN: check.sh cuts.pml [-D..]   CAP=2, NCANCEL=1   BOTH: rows 2 and 3 are of the other key as well, so both are long
 * BROKEN VARIANTS, each must fail:
 *   ONEPLACE    C1: all keys are cut at the place of the longest      PLACEAFTER  C1: the cursor stands behind the first row that was dropped
 *   KEEPSLAST   C1: it loses its first rows                           POPALL      C3: all cursors go, and the pass is of those that ran dry
 *   NEWCOMES    C4: a page brings what was not met                    OPENCOMES   C4: ... what a worker has       OVERCOMES   C4: ... what is over
 *   ALLCOMES    C4: ... also what stands before the place             HINTCOMES   C5: also a row that the reload can bring is taken in
 *   METANDLEFT  C5: what is left to the sweep counts as met           ASKSMEMORY  C6: only what is in memory is cancelled
 *   MARKBLIND   C7: the mark does not know of the reload
 * VACUITY1: a reload brings a row. VACUITY2: a key is cut again while it is reloaded. VACUITY3: a row of the short key comes, by a hint, while
 *   the other one is reloaded. All must fail. */
#ifndef CAP
#define CAP 2
#endif
#ifndef NCANCEL
#define NCANCEL 1
#endif
#define N 5
#define NONE 9
#ifdef BOTH
#define KEY(r) (r / 2 == 0 -> 0 : 1)
#else
#define KEY(r) (r / 4)
#endif
/* The rows of each: 0 and 4, 1, 2 and 3. */
#define PAGE(r) (r == 3 -> 2 : r % 4)
byte pos[N], cur[2], re[2];
bool stored[N], met[N], hinted[N], mem[N], open[N], over[N], sent[N], said[N];
bool reloading = false; byte page = 0, cancels = 0;
hidden byte r, k, n0, n1, at, first;
#define UNSENT(x) (stored[x] && met[x] && !open[x] && !over[x])

inline count() {                                   /* in memory, of each key */
  n0 = 0; n1 = 0; r = 0;
  do :: r < N -> if :: mem[r] && KEY(r) == 0 -> n0++ :: mem[r] && KEY(r) == 1 -> n1++ :: else fi; r++ :: else -> break od
}

inline cut() {                                     /* C1 */
  count();
  do
  :: n0 + n1 > CAP ->
     k = (n0 >= n1 -> 0 : 1); at = NONE; first = N; r = 0;
     do
     :: r < N ->
        if
#ifdef KEEPSLAST
        :: mem[r] && KEY(r) == k && (first == N || pos[r] < at) -> first = r; at = pos[r]
#else
        :: mem[r] && KEY(r) == k && (first == N || pos[r] > at) -> first = r; at = pos[r]
#endif
        :: else
        fi; r++
     :: else -> break
     od;
     mem[first] = false;
#ifdef VACUITY2
     assert(!(reloading && re[k] != NONE));
#endif
#ifdef PLACEAFTER
     at++;
#endif
#ifdef KEEPSLAST
     if :: cur[k] == NONE -> cur[k] = 8 :: else fi;
#else
     cur[k] = at;
#endif
#ifdef ONEPLACE
     cur[1 - k] = (cur[1 - k] < at -> cur[1 - k] : at); r = 0;
     do :: r < N -> if :: mem[r] && pos[r] >= cur[KEY(r)] -> mem[r] = false :: else fi; r++ :: else -> break od;
#endif
     count()
  :: else -> break
  od
}

inline admit(x) {                                  /* C2 */
  if :: pos[x] < cur[KEY(x)] -> assert(!mem[x]); mem[x] = true :: else fi
}

inline judge() {
  r = 0;
  do
  :: r < N ->
     /* The short key has none in the store. */
#ifndef BOTH
     assert(!(KEY(r) == 1 && UNSENT(r) && !mem[r]));
#endif
     r++
  :: else -> break
  od
}

#define BEHIND(x) (pos[x] >= re[KEY(x)])
#define WASMET(x) (met[x])
#define INHAND(x) (open[x])
#define ISOVER(x) (over[x])
#ifdef ALLCOMES
#undef BEHIND
#define BEHIND(x) (re[KEY(x)] != NONE)
#endif
#ifdef NEWCOMES
#undef WASMET
#define WASMET(x) (true)
#endif
#ifdef OPENCOMES
#undef INHAND
#define INHAND(x) (false)
#endif
#ifdef OVERCOMES
#undef ISOVER
#define ISOVER(x) (false)
#endif

inline brings(x) {                                 /* C4 */
  if
  :: stored[x] && BEHIND(x) && WASMET(x) && !INHAND(x) && !ISOVER(x) ->
#ifdef VACUITY1
     assert(false);
#endif
     admit(x)
  :: else
  fi
}

#define DRY0 (cur[0] != NONE && n0 == 0)
#define DRY1 (cur[1] != NONE && n1 == 0)

inline begin() {                                   /* C3 */
  re[0] = NONE; re[1] = NONE; reloading = true; page = 0;
  if :: DRY0 -> re[0] = cur[0]; cur[0] = NONE :: else fi;
  if :: DRY1 -> re[1] = cur[1]; cur[1] = NONE :: else fi;
#ifdef POPALL
  cur[0] = NONE; cur[1] = NONE;
#endif
}

inline heard(x) {                                  /* a hint: C5 */
  hinted[x] = false;
  if
  :: met[x]
  :: else ->
     if
#ifndef HINTCOMES
     :: reloading && pos[x] >= re[KEY(x)] ->
#ifdef METANDLEFT
        met[x] = true;
#endif
        skip
#endif
     :: else ->
#ifdef VACUITY3
        assert(!(reloading && KEY(x) == 1));
#endif
        met[x] = true; if :: over[x] -> skip :: else -> admit(x) fi
     fi
  fi
}

inline send(x) {
  /* The first of its key in memory, which is not past what is behind the cursor. */
  r = 0;
  do
  :: r < N -> assert(!(KEY(r) == KEY(x) && pos[r] < pos[x] && UNSENT(r) && !mem[r] && pos[r] >= cur[KEY(r)])); r++
  :: else -> break
  od;
  assert(!sent[x]); assert(!said[x]);
  mem[x] = false; open[x] = true; sent[x] = true
}

#define BEFORE(x, y) (mem[y] && KEY(y) == KEY(x) && pos[y] < pos[x])
#define ISFIRST(x) (mem[x] && !BEFORE(x,0) && !BEFORE(x,1) && !BEFORE(x,2) && !BEFORE(x,3) && !BEFORE(x,4))

inline mark() {                                    /* C7: how far it may go */
  at = NONE; r = 0;
  do :: r < N -> if :: (mem[r] || open[r]) && pos[r] < at -> at = pos[r] :: else fi; r++ :: else -> break od;
  k = 0;
  do
  :: k < 2 ->
     if :: cur[k] < at -> at = cur[k] :: else fi;
#ifndef MARKBLIND
     if :: reloading && re[k] < at -> at = re[k] :: else fi;
#endif
     k++
  :: else -> break
  od;
  r = 0;
  do :: r < N -> assert(!(UNSENT(r) && pos[r] < at)); r++ :: else -> break od
}

#define UNMET(x) (stored[x] && !met[x])

#define ANYUNMET (UNMET(0) || UNMET(1) || UNMET(2) || UNMET(3) || UNMET(4))

active proctype Holder() {
  byte x;
  d_step {
    pos[0] = 3; pos[1] = 1; pos[2] = 2; pos[3] = 5; pos[4] = 4;
    cur[0] = NONE; cur[1] = NONE; re[0] = NONE; re[1] = NONE
  };
end:
  do
  /* What others do: any row is written at any time, and told of or not. */
  :: atomic { select(x : 0 .. 4); if :: !stored[x] -> stored[x] = true; if :: hinted[x] = true :: skip fi :: else fi; x = 0 }
  :: atomic { select(x : 0 .. 4); d_step { if :: hinted[x] -> heard(x); cut(); judge(); mark() :: else fi; x = 0 } }
  /* A sweep meets all that is new. */
  :: atomic { !reloading && ANYUNMET -> d_step {
       do :: x < N -> if :: UNMET(x) -> met[x] = true; if :: over[x] -> skip :: else -> admit(x); cut() fi :: else fi; x++ :: else -> break od;
       judge(); mark(); x = 0 } }
  :: atomic { !reloading && cur[0] + cur[1] < 2 * NONE -> d_step { count(); if :: DRY0 || DRY1 -> begin(); mark() :: else fi } }
  :: atomic { reloading && page < 3 -> d_step {
       do :: x < N -> if :: PAGE(x) == page -> brings(x); cut() :: else fi; x++ :: else -> break od;
       page++; judge(); mark(); x = 0 } }
  :: atomic { reloading && page == 3 -> d_step { reloading = false; page = 0; re[0] = NONE; re[1] = NONE } }
  :: atomic { select(x : 0 .. 4); d_step { if :: ISFIRST(x) -> send(x); mark() :: else fi; x = 0 } }
  :: atomic { select(x : 0 .. 4); d_step { if :: open[x] -> open[x] = false; over[x] = true; mark() :: else fi; x = 0 } }
  :: atomic { select(x : 0 .. 4); d_step {
       if
       :: cancels < NCANCEL && stored[x] && !sent[x] && !over[x] ->
          cancels++; said[x] = true;
#ifdef ASKSMEMORY
          over[x] = mem[x];
#else
          over[x] = true;
#endif
          mem[x] = false
       :: else
       fi; x = 0 } }
  /* At rest. */
  :: atomic { !reloading && cur[0] == NONE && cur[1] == NONE && !ANYUNMET -> d_step {
       count(); r = 0;
       do :: r < N -> assert(n0 + n1 > 0 || !stored[r] || over[r] || open[r]); r++ :: else -> break od; r = 0 } }
  od
}
