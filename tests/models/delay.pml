/* delay.pml: a schedule with a fixed delay: each occurrence comes D after the end of the one before, and the manual trigger.
 *
 * WHAT: occurrences 1..N in turn, N+1 = what a caller triggers by hand. reg = the register (ver counts its changes): made = how many there were,
 *   open = the one that was created last, rec = its instant.   st[o]: 0 absent, 1 created, 2 with a worker, 3 ended in the memory of its holder
 *   alone (a crash undoes it: 2 again, NUNDO times), 4 ended durably, at endat[o].   at[o] = the instant of its row.   A tick may die after any step
 *   (NCRASH times): another one begins anew.
 * RULES
 *   D1 an occurrence is created by the cas that makes it `open`, fenced by the value that was read BEFORE the one that was open was looked up,
 *      and only if that one was found ended durably (O1 of overlap.pml).
 *   D2 its instant is D after the clock, which is read AFTER that look: nobody has written down when a task has ended, and a clock of before
 *      the look may be earlier.
 *   D3 the cas records the instant, THEN the row is written; who finds the record writes the row at the instant of the record.
 *   D4 the end of an occurrence is hinted; it is looked at again by the tick in any case.
 * PROMISES: never are two open at once; an instant is D or more after the end of all before it; an occurrence has one row;
 * at rest all N have been, and ended: the schedule goes on.
 * RUN: check.sh delay.pml [-DTRIGGER]
 * BROKEN, each must fail: CLOCKFIRST (D2: the clock, THEN the look)   UNDURABLE (D1: an end that a crash can undo is taken for one)
 *   LOOKFIRST (D1: looked up, THEN the value is read)   TRIGGERBLIND with TRIGGER (D1: it looks at nothing)   RECOMPUTE (D3: who finds the record
 *   computes the instant anew)   ROWFIRST (D3: the row, THEN the cas)   NOPOLL (D4: hint only, and it is lost)
 * VACUITY1 (must fail): the last one has ended, after a crash and an end that a crash undid.   VACUITY2, with TRIGGER: what was triggered as well. */
#ifndef N
#define N 2
#endif
#ifndef NUNDO
#define NUNDO 1
#endif
#ifndef NCRASH
#define NCRASH 1
#endif
#define D 1
/* So often the clock goes on while nothing waits for its time. */
#define IDLE 2
byte st[N+2], at[N+2], endat[N+2], ver = 0, made = 0, open = 0, rec = 0, now = 0, undo = 0, crash = 0, idle = 0;
#define LIVE(o) (st[o] >= 1 && st[o] <= 3)
#define ANY (LIVE(1) || LIVE(2) || LIVE(N+1))
#ifdef UNDURABLE
#define ENDED(o) (o == 0 || st[o] >= 3)
#else
#define ENDED(o) (o == 0 || st[o] == 4)
#endif
inline row(o, i) {
  if :: st[o] == 0 -> assert(!ANY); st[o] = 1; at[o] = i
     :: else -> assert(at[o] == i)
  fi }
inline apart(i) {
  assert((st[1] != 4 || i >= endat[1] + D) && (st[2] != 4 || i >= endat[2] + D) && (st[N+1] != 4 || i >= endat[N+1] + D)) }
#ifdef LOOKFIRST
#define LOOK atomic { o = open; e = ENDED(o); n = now }; atomic { v = ver; o = open; m = made; i = rec }
#else
#ifdef CLOCKFIRST
#define LOOK atomic { v = ver; o = open; m = made; i = rec }; n = now; atomic { e = ENDED(o) }
#else
#define LOOK atomic { v = ver; o = open; m = made; i = rec }; atomic { e = ENDED(o) }; n = now
#endif
#endif
proctype Tick() {                                              /* two of them: the second one is a tick that was sent again, or a hint */
  byte v, o, m, i, n; bool e;
  do
  :: (made < N || (open != 0 && st[open] == 0)) ->
     LOOK;
     if
     :: o != 0 && st[o] == 0 ->                                /* a record without its row: its recorder may have died */
#ifdef RECOMPUTE
        i = now + D;
#endif
        atomic { row(o, i) }
     :: else ->
        if
        :: e && m < N ->
#ifdef ROWFIRST
           atomic { row(m + 1, n + D) };
#endif
           atomic { if :: ver == v -> apart(n + D); made = m + 1; open = m + 1; rec = n + D; ver++; o = m + 1; i = rec
                       :: else -> o = 0 fi };
           if
           :: crash < NCRASH -> crash++                        /* it dies here; the record stands */
           :: o != 0 -> atomic { row(o, i) }
           :: o == 0
           fi
        :: else                                                /* later again */
        fi
     fi;
     atomic { v = 0; o = 0; m = 0; i = 0; n = 0; e = false }
#ifdef NOPOLL
     break
#endif
  :: (made == N && st[open] != 0) -> break
  od }
proctype Trigger() {
  byte v, o, m, i, n; bool e;
again:
  LOOK;
#ifdef TRIGGERBLIND
  e = true;
#endif
  if
  :: e && (o == 0 || st[o] != 0) -> atomic { if :: ver == v -> open = N + 1; rec = now; ver++; row(N + 1, now) :: else -> goto again fi }
  :: else                                                      /* the caller is told that one is open */
  fi }
#define WORK(k) \
  :: atomic { st[k] == 1 && now >= at[k] -> st[k] = 2 } \
  :: atomic { st[k] == 2 -> st[k] = 3 } \
  :: atomic { st[k] == 3 -> st[k] = 4; endat[k] = now } \
  :: atomic { st[k] == 3 && undo < NUNDO -> undo++; st[k] = 2 }
#define WAITS(k) (st[k] == 1 && at[k] > now)
proctype Engine() {
end: do
  :: atomic { WAITS(1) || WAITS(2) || WAITS(N+1) -> now++ }
  :: atomic { idle < IDLE && !(WAITS(1) || WAITS(2) || WAITS(N+1)) -> idle++; now++ }
  WORK(1) WORK(2) WORK(N+1)
  od }
init { atomic { run Tick(); run Tick();
#ifdef TRIGGER
  run Trigger();
#endif
  run Engine() } }
active proctype Monitor() {
end: if
#ifdef VACUITY1
  :: atomic { st[N] == 4 && undo == NUNDO && crash == NCRASH -> assert(false) }
#endif
#ifdef VACUITY2
  :: atomic { st[N] == 4 && st[N+1] == 4 -> assert(false) }
#endif
  :: atomic { timeout -> assert(made == N && !ANY && st[1] == 4 && st[2] == 4) }
  fi }
