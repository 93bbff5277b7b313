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
 *   T6 what an instance will not use goes back, by a message that comes whenever, twice, or never. The keeper that has counted the bunch takes
 *      it once: it counts all that came later anew, as if these tokens had not been drawn. Of a bunch that it does not know it takes nothing.
 *   known[m] the last bunch of an instance in the books: number, instant, tokens, and the arrival time before it     told  what goes back
 * PROMISE: in any w ticks at most w + LIFE + BURST start. `from` is the begin of any window.
 *
 * RUN: check.sh rates.pml [-D..]   BURST=2, LIFE=1, AHEAD=1, END=4, NCHANGE=1, NBACK=0
 * BROKEN VARIANTS, each must fail:
 *   NOAFTER    T1: counted ahead, used at once         NOEND     T2: tokens do not lapse
 *   ENDHEARD   T2: the end is counted from the answer  BEGINASKED T2: the beginning is counted from the call
 *   FULLBURST  T3: the new keeper's burst is full      NOPAUSE   T3: it counts from now on
 *   LIFEPAUSE  T3: its burst is full a LIFE later (with BURST=3)   GHOST T4: the keeper before goes on
 *   FORGETBEGUN T5: it forgets what has begun and is not made up for
 *   BACKUSED  T6: what goes back is used all the same   BACKTWICE T6: it is taken as often as it comes
 *   BACKFLAT  T6: it is taken off, whatever was counted later
 * VACUITY1: a token lapses. VACUITY2: as many start as may. VACUITY3: the new keeper's tokens are used. VACUITY4: tokens of a key that was
 *   forgotten. VACUITY5: tokens that are there because others came back. All must fail. */
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
#ifndef NBACK
#define NBACK 0
#endif
byte now = 0, from = 0, started = 0, changes = 0;
byte arrival = 0, at = 0, oldarrival = 0, oldat = 0, born = 0; bool ghost = false, forgotten = false;
byte call[2], asked[2], n[2], after[2], have[2], begin[2], over[2]; bool fresh[2];
/* T6: numbers are never given twice; 0: none */
byte numbers = 0, backs = 0, hasnumber[2], known[2], knownat[2], knownof[2], before[2], told[2], toldof[2]; byte last = 0; bool credited = false;
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define FROM(t) MAX(t, now)
/* T1: x more, in these books */
#define BEGINS(a, t, x) MAX(FROM(t), MAX(a, FROM(t)) + (x) - BURST)
#define MAYGO(a, t, x) (MAX(a, FROM(t)) + (x) <= now + AHEAD + BURST && FROM(t) <= now + AHEAD)
#define HANDOUT(a, t, x) after[m] = BEGINS(a, t, x) - now; n[m] = x; COUNT(a, x); a = MAX(a, FROM(t)) + x; t = now + after[m]; call[m] = 2
/* what m gets now, in the books by which it may come back. Counted is MAX(a, FROM(t)) + x, which is MAX(a, its instant) + x where it counts */
#define COUNT(a, x) if :: backs < NBACK || told[0] || told[1] -> KEEPORDER; numbers++; hasnumber[m] = numbers; known[m] = numbers; knownat[m] = now + after[m]; knownof[m] = x; before[m] = a; last = m \
  :: else -> hasnumber[m] = 0 fi
/* of what lies before one that is not in these books any more nothing is taken back */
#define KEEPORDER if :: last == m && knownof[m] -> known[1 - m] = 0; knownof[1 - m] = 0; knownat[1 - m] = 0; before[1 - m] = 0 :: else fi
#define FORGETALL known[0] = 0; known[1] = 0; knownat[0] = 0; knownat[1] = 0; knownof[0] = 0; knownof[1] = 0; before[0] = 0; before[1] = 0; last = 0
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
#elif defined(VACUITY5)
#define NOTE(is) fresh[m] = credited
#else
#define NOTE(is) skip
#endif
#if defined(VACUITY3) || defined(VACUITY4) || defined(VACUITY5)
#define CLAIM assert(!fresh[m])
#else
#define CLAIM skip
#endif

/* T6: to the keeper of now, from m */
inline Back(m, o) {
#ifdef BACKFLAT
  arrival = (arrival > toldof[m] -> arrival - toldof[m] : 0); known[m] = 0
#else
  knownof[m] = (knownof[m] > toldof[m] -> knownof[m] - toldof[m] : 0);
#ifndef BACKTWICE
  known[m] = 0;
#endif
  arrival = (knownof[m] -> MAX(before[m], knownat[m]) + knownof[m] : before[m]);
  if
  :: last == o && knownof[o] -> before[o] = arrival; arrival = MAX(arrival, knownat[o]) + knownof[o]
  :: last == m && !knownof[m] -> at = (knownof[o] -> MAX(born, knownat[o]) : born)
  :: else
  fi;
#endif
#ifdef VACUITY5
  credited = true
#else
  skip
#endif
}

proctype Clock() {
  do
  :: atomic { now < END -> now++ }
  :: now == END -> break
  od }

proctype Keepers() {
end:
  do
  :: atomic { told[0] && known[0] == told[0] -> Back(0, 1) }
  :: atomic { told[1] && known[1] == told[1] -> Back(1, 0) }
  :: atomic { changes < NCHANGE -> changes++; ghost = true; KEEPOLD; FORGETALL;
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
  :: atomic { arrival > 0 && ISOVER && !(at == born && arrival == BORN) -> at = born; arrival = BORN; FORGETALL;
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
  /* T6: it is said once, and heard whenever, maybe twice */
  :: atomic { have[m] && hasnumber[m] && told[m] == 0 && backs < NBACK -> backs++;
       told[m] = hasnumber[m]; toldof[m] = have[m]; hasnumber[m] = 0;
#ifndef BACKUSED
       have[m] = 0; begin[m] = 0; over[m] = 0
#endif
     }
  :: atomic { told[m] -> told[m] = 0; toldof[m] = 0;
       if :: backs == NBACK && told[0] == 0 && told[1] == 0 -> FORGETALL; hasnumber[0] = 0; hasnumber[1] = 0; numbers = 0 :: else fi }
  :: atomic { have[m] && !INTIME -> have[m] = 0; begin[m] = 0; over[m] = 0; hasnumber[m] = 0;
#ifdef VACUITY1
       assert(false)
#endif
     }
  :: atomic { have[m] && now >= begin[m] && INTIME -> have[m]--;
       if :: have[m] == 0 -> begin[m] = 0; over[m] = 0; hasnumber[m] = 0 :: else fi;
       if :: now >= from -> started++; MOST :: else fi;
       CLAIM }
  od }

init { atomic { select(from : 0 .. END); run Clock(); run Keepers(); run Instance(0); run Instance(1) } }
