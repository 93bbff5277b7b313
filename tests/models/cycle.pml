/* cycle.pml: one member of a cycle, whose roster timerd keeps, over N cycles.
 *
 * WHAT: rec = cycles whose slot of this member is recorded in the register (serial). e[k] = entries of the member, plain quorum writes: 0 absent,
 *   1 in flight (a read may see it or not), 2 acknowledged (every later read sees it). The largest k that is seen counts: e[0] and e[2] add, e[1] removes.
 *   st[c] = its task of cycle c: 0 absent, 1 inserted, 2 started, 3 withdrawn; it is named by member and cycle, so who inserts it again changes nothing.
 *   now >= c: the moment of cycle c is over. It starts at any time from then on. An expander may die anywhere, NCRASH times, and comes again.
 * RULES (Y4)
 *   Expander: the slot is recorded, THEN the roster is read, THEN the tasks are inserted, THEN it is done.
 *   Add: the entry, THEN the record is read, THEN the roster is read again; where the slot is recorded, its moment to come, and the entry still the last one,
 *      the task is inserted, THEN OK.
 *   Remove: the entry, THEN the record is read, THEN the tasks of what is recorded are withdrawn, also those that are not there yet, THEN OK.
 * PROMISES: after OK of add each cycle whose moment is to come starts the member once; after OK of remove nothing of it starts; never twice.
 *   Who adds again what was removed has it from the first cycle on that was not recorded by then.
 * RUN: check.sh cycle.pml -DADD | -DREMOVE | -DBOTH (both calls at once) | -DAGAIN (removed, then added again)
 * BROKEN, each must fail: READFIRST (the roster, THEN the record)   READONE (of one replica)   ACKFIRST (done, THEN the tasks)
 *   NOLOOK, LOOKFIRST (add: the record is not read; or before the entry is written)   EARLYOK (OK, THEN the task)   BLINDINSERT (whatever became of it)
 *   ADDBLIND (add: the roster is not read again)   CANCELFIRST, REMLOOKFIRST (remove: the tasks, THEN the entry; the record, THEN the entry)
 *   NOSTICK (what is not there yet is not withdrawn)
 * VACUITY (must fail): 1 the adder inserts what the expander did not see; 2 a withdrawn task meets its expander later. */
#ifndef N
#define N 2
#endif
#ifndef NCRASH
#define NCRASH 1
#endif
byte e[3], st[N+1], n[N+1], rec = 0, now = 0, crashes = 0, ended = 0, okat = 99, okrec = 99, seenbyadd = 0;
bool gone = false, called = false, late3 = false;
#if defined(BOTH) || defined(AGAIN)
#define CALLS 2
#else
#define CALLS 1
#endif

#ifdef READONE
#define SEES(k) (e[k] >= 1)
#define MISSES(k) true
#else
#define SEES(k) (e[k] >= 1)
#define MISSES(k) (e[k] < 2)
#endif
inline roster(m) {                              /* m: whether it is a member, by the largest entry that is seen */
  if :: SEES(2) -> m = true
     :: MISSES(2) ->
        if :: SEES(1) -> m = false
           :: MISSES(1) -> if :: SEES(0) -> m = true :: MISSES(0) -> m = false fi fi fi }
#ifdef BLINDINSERT
#define FREE(c) (st[c] != 1)
#else
#define FREE(c) (st[c] == 0)
#endif
#ifdef NOSTICK
#define HELD(c) (st[c] == 1)
#else
#define HELD(c) (st[c] < 2)
#endif
inline insert(c) { atomic { if :: st[c] == 3 -> late3 = true :: else fi; if :: FREE(c) -> st[c] = 1 :: else fi } }

active proctype Clock() { do :: atomic { now < N -> now++ } :: now == N -> break od }

proctype Expander(byte c) {
  bool m;
  rec == c - 1;
#ifdef READFIRST
  atomic { roster(m) };
  rec = c;
#else
  rec = c;
again:
  atomic { roster(m) };
#endif
  do
  :: break
  :: atomic { crashes < NCRASH -> crashes++; m = false;
#ifdef ACKFIRST
       goto over
#else
#ifdef READFIRST
       roster(m)
#else
       goto again
#endif
#endif
     }
  od;
  if :: m -> insert(c) :: else fi;
over:
  atomic { ended++; m = false } }

inline add(k) {
#ifdef LOOKFIRST
  r = rec;
#endif
  e[k] = 1;
  if :: e[k] = 2 :: goto dead fi;
#ifndef LOOKFIRST
  r = rec;
#endif
#ifdef NOLOOK
  r = 0;
#endif
#ifdef ADDBLIND
  m = true;
#else
  atomic { roster(m) };
#endif
#ifdef EARLYOK
  atomic { okat = now; okrec = rec };
  if :: skip :: goto dead fi;
#endif
  c = 1;
  do :: c <= r -> if :: m && now < c -> atomic { if :: st[c] == 0 -> seenbyadd = c :: else fi }; insert(c) :: else fi; c++
     :: else -> break od;
#ifndef EARLYOK
  atomic { okat = now; okrec = rec }
#endif
}
inline withdraw_all() {
  c = 1;
  do :: c <= r -> atomic { if :: HELD(c) -> st[c] = 3 :: else fi; c++ } :: else -> break od }
inline remove() {
#ifdef CANCELFIRST
  r = rec; withdraw_all();
#endif
#ifdef REMLOOKFIRST
  r = rec;
#endif
  e[1] = 1;
  if :: e[1] = 2 :: goto dead fi;
#ifndef CANCELFIRST
#ifndef REMLOOKFIRST
  r = rec;
#endif
  withdraw_all();
#endif
  gone = true }

proctype Adder() { byte r, c; bool m;
  add(0);
dead: atomic { ended++; r = 0; c = 0; m = false } }

proctype Remover() { byte r, c; bool m;
  called = true;
  remove();
#ifdef AGAIN
  atomic { gone = false };
  add(2);
#endif
dead: atomic { ended++; r = 0; c = 0; m = false } }

active proctype Start() {                       /* of what is due */
  byte c;
end: do
  :: atomic { now >= 1 && st[1] == 1 -> c = 1; goto begin }
  :: atomic { now >= 2 && st[2] == 1 -> c = 2;
begin:
       st[c] = 2; n[c]++;
       assert(n[c] == 1);
       assert(!gone);
       c = 0 }
  od }

init { atomic { byte c = 1;
#if defined(REMOVE) || defined(AGAIN)
  e[0] = 2;
#endif
  do :: c <= N -> run Expander(c); c++ :: else -> break od;
#if defined(ADD) || defined(BOTH)
  run Adder();
#endif
#ifndef ADD
  run Remover();
#endif
#ifdef AGAIN
  ended = 1;
#endif
  c = 0 } }

#define REST (now == N && ended == N + CALLS && st[1] != 1 && st[2] != 1)
active proctype Monitor() {
end: if
  :: atomic { REST ->
#ifdef VACUITY1
       assert(!(seenbyadd == 2 && n[2] == 1));
#endif
#ifdef VACUITY2
       assert(!(gone && late3));
#endif
#ifdef ADD
       assert(!(okat < 1) || n[1] == 1);
       assert(!(okat < 2) || n[2] == 1);
#endif
#ifdef AGAIN
       assert(!(okrec < 1) || n[1] == 1);
       assert(!(okrec < 2) || n[2] == 1);
#endif
       skip }
  fi }
