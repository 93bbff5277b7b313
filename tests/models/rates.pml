/* rates.pml: one rate for the whole cluster, one token a tick and BURST of them at once, without a store in the way of a start.
 *
 * WHAT: the keeper of the limit hands out bunches of tokens (arrival, at: the books of a single instance; at most AHEAD ticks ahead, so that an
 *   answer on its way costs nothing). An instance calls, hears the answer whenever it comes, and starts by what it has. All clocks go alike, and
 *   nobody compares what they show: a call was made at `asked`, an answer is heard later, and only lengths of time are said. A call that is lost
 *   is one that was made later.
 *   call   of an instance: 0 none, 1 under way to the keeper, 2 the answer (n, after) is under way     have   tokens, from begin to end
 *   ghost  the keeper before, which stood still or does not know yet that it has left, with its books
 * RULES
 *   T1 a token is counted at the instant at which it begins, now or up to AHEAD later; never more than a single instance would start by then.
 *   T2 it begins `after` ticks after the answer was heard, and ends LIFE ticks after that, counted from when the call was made: then it lapses.
 *   T3 a new keeper has an empty burst, and counts from AHEAD ticks after it was named: what was counted before it has begun by then.
 *   T4 who is not sure that it is still the keeper hands out nothing.
 *   T5 of a limit key: when what was counted is over, the keeper may forget the key. An unknown one has the books with which it began.
 * PROMISE: in any w ticks at most w + LIFE + BURST start. `from` is the begin of any window.
 *
 * RUN: check.sh rates.pml [-D..]   BURST=2, LIFE=1, AHEAD=1, END=4, NCHANGE=1
 * BROKEN VARIANTS, each must fail:
 *   NOAFTER    T1: counted ahead, used at once         NOEND     T2: tokens do not lapse
 *   ENDHEARD   T2: the end is counted from the answer  BEGINASKED T2: the beginning is counted from the call
 *   FULLBURST  T3: the new keeper's burst is full      NOPAUSE   T3: it counts from now on
 *   LIFEPAUSE  T3: its burst is full a LIFE later (with BURST=3)   GHOST T4: the keeper before goes on
 *   FORGETBEGUN T5: it forgets what has begun and is not made up for
 * VACUITY1: a token lapses. VACUITY2: as many start as may. VACUITY3: the new keeper's tokens are used. VACUITY4: tokens of a key that was
 *   forgotten. All must fail. */
#ifndef BURST
#define BURST 2
#endif
#ifndef LIFE
#define LIFE 1
#endif
#ifndef AHEAD
#define AHEAD 1
#endif
#ifndef END
#define END 4
#endif
#ifndef NCHANGE
#define NCHANGE 1
#endif
byte now = 0, from = 0, started = 0, changes = 0;
byte arrival = 0, at = 0, oldarrival = 0, oldat = 0, born = 0; bool ghost = false, forgotten = false;
byte call[2], asked[2], n[2], after[2], have[2], begin[2], over[2]; bool fresh[2];
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define FROM(t) MAX(t, now)
/* T1: x more, in these books */
#define BEGINS(a, t, x) MAX(FROM(t), MAX(a, FROM(t)) + (x) - BURST)
#define MAYGO(a, t, x) (MAX(a, FROM(t)) + (x) <= now + AHEAD + BURST && FROM(t) <= now + AHEAD)
#define HANDOUT(a, t, x) after[m] = BEGINS(a, t, x) - now; n[m] = x; a = MAX(a, FROM(t)) + x; t = now + after[m]; call[m] = 2
#ifdef NOEND
#define INTIME true
#else
#define INTIME (now <= over[m])
#endif

#ifdef GHOST
#define KEEPOLD oldarrival = arrival; oldat = at
#else
#define KEEPOLD skip
#endif
#ifdef VACUITY2
#define MOST assert(started < now - from + LIFE + BURST)
#else
#define MOST assert(started <= now - from + LIFE + BURST)
#endif
#define BORN (changes -> born + BURST : 0)
#ifdef FORGETBEGUN
#define ISOVER (at <= now)
#else
#define ISOVER (arrival <= now && at <= now)
#endif
#ifdef VACUITY3
#define NOTE(is) fresh[m] = is
#elif defined(VACUITY4)
#define NOTE(is) fresh[m] = forgotten
#else
#define NOTE(is) skip
#endif

proctype Clock() {
  do
  :: atomic { now < END -> now++ }
  :: now == END -> break
  od }

proctype Keepers() {
end:
  do
  :: atomic { changes < NCHANGE -> changes++; ghost = true; KEEPOLD;
#ifdef FULLBURST
       at = now + AHEAD; arrival = at
#elif defined(NOPAUSE)
       at = now; arrival = at + BURST
#elif defined(LIFEPAUSE)
       at = now; arrival = now + LIFE
#else
       at = now + AHEAD; arrival = at + BURST
#endif
       ; born = at }
  /* T5 */
  :: atomic { arrival > 0 && ISOVER && !(at == born && arrival == BORN) -> at = born; arrival = BORN;
#ifdef VACUITY4
       forgotten = true
#endif
     }
  od }

proctype Instance(byte m) {
end:
  do
  :: atomic { call[m] == 0 && have[m] == 0 && now < END -> call[m] = 1; asked[m] = now }
  :: atomic { call[m] == 1 && MAYGO(arrival, at, 1) -> HANDOUT(arrival, at, 1); NOTE(ghost) }
  :: atomic { call[m] == 1 && MAYGO(arrival, at, BURST) -> HANDOUT(arrival, at, BURST); NOTE(ghost) }
#ifdef GHOST
  :: atomic { call[m] == 1 && ghost && MAYGO(oldarrival, oldat, 1) -> HANDOUT(oldarrival, oldat, 1); NOTE(false) }
#endif
  :: atomic { call[m] == 2 -> call[m] = 0; have[m] = n[m];
#ifdef NOAFTER
       begin[m] = now;
#elif defined(BEGINASKED)
       begin[m] = asked[m] + after[m];
#else
       begin[m] = now + after[m];
#endif
#ifdef ENDHEARD
       over[m] = now + after[m] + LIFE;
#else
       over[m] = asked[m] + after[m] + LIFE;
#endif
       asked[m] = 0; n[m] = 0; after[m] = 0 }
  :: atomic { have[m] && !INTIME -> have[m] = 0; begin[m] = 0; over[m] = 0;
#ifdef VACUITY1
       assert(false)
#endif
     }
  :: atomic { have[m] && now >= begin[m] && INTIME -> have[m]--;
       if :: have[m] == 0 -> begin[m] = 0; over[m] = 0 :: else fi;
       if :: now >= from -> started++; MOST :: else fi;
#if defined(VACUITY3) || defined(VACUITY4)
       assert(!fresh[m])
#endif
     }
  od }

init { atomic { select(from : 0 .. END); run Clock(); run Keepers(); run Instance(0); run Instance(1) } }
