/* overlap.pml: a schedule whose occurrences must not run beside each other (SKIP; -DBUFFER: BUFFER_ONE), and the manual trigger.
 *
 * WHAT: instants 1..N, each an occurrence of its own, N+1 = what a caller triggers by hand. reg = the register (ver counts its changes):
 *   cur = decided up to here, open = the occurrence that was created last, buf = one that waits.   st[o]: 0 absent, 1 created,
 *   2 with a worker, 3 ended in the memory of its holder alone (a crash undoes it: 2 again, NUNDO times), 4 ended durably.
 *   How instants are recorded and rows written is the matter of schedules.pml: here it is one step.
 * RULES
 *   O1 an occurrence is created by the cas that makes it `open`, fenced by the value that was read BEFORE the one that was open was looked up,
 *      and only if that one was found ended durably.
 *   O2 ahead of its time a tick only looks: what is open may end by then. At the instant or later it decides: SKIP passes over it
 *      (a cas of cur), BUFFER_ONE lets it wait (a cas of buf; one that waits already stays, the new one is passed over).
 *      The clock is read BEFORE the look.
 *   O3 the end of an occurrence is hinted; what waits is looked at again by its tick in any case.
 *   -DCANCELS: a caller cancels, and a holder crashes while a worker has one (away): its successor records the cancel, for it knows of no worker
 *      (rec), who goes on until it is back. What is recorded so has ended only when no worker can come back with it.
 * PROMISES: never are two occurrences open at once; an instant is created, passed over or waits, one of the three, once; it is passed over
 * only if another one was open after its time had come; at rest nothing waits.
 * RUN: check.sh overlap.pml [-DBUFFER | -DCANCELS]
 * BROKEN, each must fail: NORETURN with CANCELS (O1: the record of a cancel is an end, whoever may come back)   LOOKFIRST (O1: looked up, THEN the value is read)   UNDURABLE (O1: an end that a crash can undo is taken for one)
 *   EARLYSKIP (O2: passed over ahead of its time)   CLOCKLATE (O2: looked up, THEN the clock is read)   TRIGGERBLIND (O1: the trigger looks at nothing)   NOPOLL with BUFFER (O3: hint only, and it is lost)
 * VACUITY (must fail): one was passed over, and a later one was created. */
#ifndef N
#define N 3
#endif
#ifndef NUNDO
#define NUNDO 1
#endif
byte st[N+2], ver = 0, cur = 0, open = 0, buf = 0, now = 0, undo = 0; bool skipped[N+2], wasopen[N+2];
#define LIVE(o) (o != 0 && st[o] >= 1 && st[o] <= 3)
bool away[N+2], rec[N+2]; byte crashes = 0, cancels = 0;
#ifdef UNDURABLE
#define ENDED(o) (o == 0 || st[o] >= 3)
#elif defined(NORETURN)
#define ENDED(o) (o == 0 || st[o] == 4 || rec[o])
#elif defined(CANCELS)
#define ENDED(o) (o == 0 || st[o] == 4 || (rec[o] && !away[o]))
#else
#define ENDED(o) (o == 0 || st[o] == 4)
#endif
inline create(o) {
  assert(st[o] == 0 && !skipped[o]);
  assert(!(LIVE(1) || LIVE(2) || LIVE(3) || LIVE(N+1)));
  st[o] = 1; open = o; ver++;
  if :: now >= 1 -> wasopen[1] = true :: else fi; if :: now >= 2 -> wasopen[2] = true :: else fi; if :: now >= 3 -> wasopen[3] = true :: else fi }
#ifdef LOOKFIRST
#define LOOK atomic { n = now; o = open; e = ENDED(open) }; atomic { v = ver; c = cur; b = buf }
#else
#ifdef CLOCKLATE
#define LOOK atomic { v = ver; o = open; c = cur; b = buf }; atomic { e = ENDED(o) }; n = now
#else
#define LOOK atomic { n = now; v = ver; o = open; c = cur; b = buf }; atomic { e = ENDED(o) }
#endif
#endif
proctype Tick() {                                              /* two of them: the second one is a tick that was sent again, or a hint */
  byte v, o, c, b, n; bool e;
  do
  :: (cur < N || buf != 0);
     LOOK;
     if
     :: b != 0 && e -> atomic { if :: ver == v -> buf = 0; create(b) :: else fi }
     :: b == 0 && e && c < N -> atomic { if :: ver == v -> cur = c + 1; create(c + 1) :: else fi }
#ifdef EARLYSKIP
     :: !e && c < N ->
#else
     :: !e && c < N && n > c ->
#endif
        atomic { if :: ver == v ->
#ifdef BUFFER
             if :: b == 0 -> buf = c + 1 :: else -> skipped[c+1] = true fi;
#else
             skipped[c+1] = true;
#endif
             if :: skipped[c+1] -> assert(wasopen[c+1]) :: else fi;
             cur = c + 1; ver++ :: else fi }
     :: else                                                   /* later again */
     fi;
     atomic { v = 0; o = 0; c = 0; b = 0; n = 0; e = false }
#ifdef NOPOLL
     break
#endif
  :: (cur == N && buf == 0) -> break
  od }
proctype Trigger() {
  byte v, o, c, b, n; bool e;
again:
#ifdef TRIGGERBLIND
  atomic { v = ver; e = true };
#else
  LOOK;
#endif
  if :: e -> atomic { if :: ver == v -> create(N+1) :: else -> goto again fi }
     :: else                                                   /* SKIP: the caller is told that one is open */
  fi }
#ifdef CANCELS
#define CANCEL(k) \
  :: atomic { st[k] == 2 && !away[k] && crashes < 1 -> crashes++; away[k] = true } \
  :: atomic { (st[k] == 1 || (st[k] == 2 && away[k] && !rec[k])) && cancels < 1 -> cancels++; \
       if :: st[k] == 1 -> st[k] = 4 :: else -> rec[k] = true fi } \
  :: atomic { away[k] -> away[k] = false; if :: rec[k] -> st[k] = 4 :: else fi }
#else
#define CANCEL(k)
#endif
#define WORK(k) \
  :: atomic { st[k] == 1 && (k > N || now >= k) -> st[k] = 2 } \
  :: atomic { st[k] == 2 -> st[k] = 3 } \
  :: atomic { st[k] == 3 -> st[k] = 4 } \
  :: atomic { st[k] == 3 && undo < NUNDO -> undo++; st[k] = 2 } CANCEL(k)
proctype Engine() {
end: do
  :: atomic { now < N -> now++; if :: LIVE(1) || LIVE(2) || LIVE(3) || LIVE(N+1) -> wasopen[now] = true :: else fi }
  WORK(1) WORK(2) WORK(3) WORK(N+1)
  od }
init { atomic { run Tick(); run Tick(); run Trigger(); run Engine() } }
active proctype Monitor() {
end: if
#ifdef VACUITY
  :: atomic { skipped[1] && st[3] == 4 -> assert(false) }
#endif
  :: atomic { timeout -> assert(buf == 0 && cur == N) }
  fi }
