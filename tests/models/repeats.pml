/* repeats.pml: calls that come again, and tries of them that were held up, beside other calls for the same task or key.
 *
 * WHAT: a register decides for one task where it is (moves), or for one key who has it (keys): that is the same thing here. Calls 1 .. NC
 * are made one after the other: a caller makes the next one when the last one was answered, or when it has given up waiting. Each call has
 * NT tries, which come at any time after it was made, through any instance, and may stop for ever, or be held up, after any step.
 *   cur        the call whose effect stands in the register (0: none); LWT only, so one atomic step
 *   ver        counts its changes: an LWT names the one that it was read at
 *   done       the calls before it that took effect, which the register holds: one at most (DONE), older ones are put away
 *   away       the registers of their own that older ones were put away in; LWT as well
 *   ok, no     what tries of a call were answered: carried out; refused, for a later call was carried out
 * And a verb by key, tried NT times, while the key goes from task 1 to task 2:
 *   target     a register of its own, set once: the task that the verb is about
 * RULES
 *   R1 a try reads the register and looks for its call: it stands there, or in done, or was put away: answered as the first time. THEN one LWT
 *      on what was read; refused: from the start.
 *   R2 the LWT keeps in done the call that stood there; what no longer fits was put away before it.
 *   R3 a call that was made before the one that stands there, and is not known, was held up: it is refused.
 *   R4 a verb by key resolves the key, THEN sets the target if it is not set, THEN acts on the target that stands.
 * PROMISES: a call takes effect once at the most; no call takes effect after a later one was acknowledged; a call is never answered in two
 * ways; a verb by key acts on one task, however often it is tried.
 *
 * RUN: spin -a [-D..] repeats.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000 -E
 *   -DNOTIME: calls do not say when they were made, so R3 is left out, and with it the second promise
 * BROKEN VARIANTS, each must fail:
 *   NOLOOK      R1: only the call that stands there is known                LOOKAPART   R1: looked for, THEN the register is read for the LWT
 *   BLINDRETRY  R1: a refused LWT is tried again on what stands there, without another look
 *   NOKEEP      R2: the call that stood there is forgotten                  NOAWAY      R2: what no longer fits is forgotten
 *   AWAYLATE    R2: put away after the LWT                                  NOORDER     R3: it is carried out
 *   NOTARGET    R4: each try acts on the task that has the key              TARGETBLIND R4: sets the target, and acts on what it resolved
 * VACUITY1: a repeat comes after two later calls. VACUITY2: a try is refused. VACUITY3: the verb by key finds the second task.
 * (all must fail). */
#ifndef NC
#define NC 3
#endif
#ifndef NT
#define NT 2
#endif
byte cur = 0, ver = 0, made = 0;
byte kept = 0;                                     /* done: the one call that the register holds */
bool older = false;                                /* ... and whether any was put away */
bool away[NC+1], ok[NC+1], no[NC+1], acked[NC+1];
byte effects[NC+1];
byte has = 1, target = 0; bool acted[3];

inline known(c) {                                  /* as R1 looks, in what was read: rcur, rkept, rolder */
  is = (rcur == c);
#ifndef NOLOOK
  is = is || rkept == c;
  if :: !is && rolder -> is = away[c] :: else fi   /* (a serial read, later than that of the register) */
#endif
}

inline readregister() { rcur = cur; rkept = kept; rolder = older; rver = ver }

proctype Try(byte c) {
  byte rcur, rkept, rver; bool rolder, is, put = false;
  made >= c;
again:
  atomic { readregister() };
  known(c);
  if
  :: is -> goto answered
  :: else
  fi;
#if !defined(NOORDER) && !defined(NOTIME)
  if
  :: rcur > c -> no[c] = true; assert(!ok[c]); goto stopped
  :: else
  fi;
#endif
#ifdef LOOKAPART
  atomic { readregister() };
#endif
#ifdef BLINDRETRY
retry:
#endif
  if :: goto stopped :: skip fi;
#if !defined(NOAWAY) && !defined(AWAYLATE)
  if :: rkept != 0 && rcur != 0 -> away[rkept] = true :: else fi;
#endif
  atomic {
    if
    :: ver == rver ->
#ifdef NOKEEP
       kept = 0;
#else
       if :: rcur != 0 -> older = older || rkept != 0; kept = rcur :: else fi;
#endif
       cur = c; ver++; effects[c]++;
       assert(effects[c] == 1); assert(!no[c]);
#ifndef NOTIME
       assert(!(c < NC && acked[c+1]) && !(c + 2 <= NC && acked[NC]))
#endif
    :: else ->
#ifdef BLINDRETRY
       readregister(); goto retry
#else
       goto again
#endif
    fi
  };
#ifdef AWAYLATE
  if :: goto stopped :: skip fi;
  if :: rkept != 0 && rcur != 0 -> away[rkept] = true :: else fi;
#endif
  if :: goto stopped :: skip fi;
answered:
  atomic { ok[c] = true; acked[c] = true; assert(!no[c]);
#ifdef VACUITY1
    assert(!(c == 1 && cur == NC && effects[1] == 1))
#endif
  };
stopped:
#ifdef VACUITY2
  assert(!no[c]);
#endif
  skip
}

proctype Caller() {
  made = 1; made = 2;
#if NC > 2
  made = 3
#endif
}

proctype ByKey() {
  byte mine, task;
  mine = has;                                      /* the key is resolved */
#ifdef VACUITY3
  assert(mine == 1);
#endif
  if :: goto gone :: skip fi;
#ifndef NOTARGET
  atomic { if :: target == 0 -> target = mine :: else fi };
#endif
#if defined(NOTARGET) || defined(TARGETBLIND)
  task = mine;
#else
  task = target;
#endif
  if :: goto gone :: skip fi;
  acted[task] = true;
  assert(!(acted[1] && acted[2]));
gone: skip
}

proctype NextHolder() { has = 2 }

init { atomic {
  byte c = 1, t;
  run Caller();
  do :: c <= NC -> t = 0; do :: t < NT && (c == 1 || t < 1) -> run Try(c); t++ :: else -> break od; c++ :: else -> break od;
#ifdef KEYS
  run ByKey(); run ByKey(); run NextHolder()
#endif
} }
