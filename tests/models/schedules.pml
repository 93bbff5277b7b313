/* schedules.pml: one recurring schedule; its occurrences are created by a chain of ticks, while it is created, updated or paused.
 *
 * WHAT: nominal instants 1..N. Revision 1 has all of them; revision 2 (the update) has those of `spec2`, or none (-DPAUSE).
 *   register   compare-and-set only (ver counts its changes, so a fenced cas compares it): rev, first = the first tick of this revision,
 *              seq = windows recorded in it, win = instant of the last one, ahead = recorded instants that are still to come (bits),
 *              cur = recorded up to here, u = when this revision came into force, ret = `ahead` of the revision before, not wound up yet,
 *              taken = instants after u that the old one has fired
 *   row        occurrence (revision, instant): 0 absent, 1 there, 2 fired, 3 withdrawn. One step each: what happens inside is the matter of
 *              closing.pml (insert), moves.pml (a withdrawal is a move without a target) and cancel.pml
 *   tick       0 absent, 1 waiting, 2 with an expander, 3 acked. An ordinary task: delivered at least once, at any time (with a lead, late,
 *              after an outage), again after a crash, and to a second expander while the first one stalls (NSTALL)
 * RULES
 *   W1 tick n: cas {seq n -> n+1, win, ahead, cur} fenced by the whole value, THEN the row, THEN tick n+1, THEN the ack of tick n.
 *   W2 who finds the window of his tick recorded takes it from the record, he never computes it anew.
 *   W3 a row that is met as fired or withdrawn stays so: no second place without a look at what became of the first one.
 *   F1 create, update, resume: the first tick of the new revision, THEN the cas that brings the revision into force.
 *   F2 a first tick that comes before its cas makes that cas fail (any change of the value), THEN it ends; the caller tries again.
 *   U1 an update may only follow a record that has reached u (the next instant of the old revision is after u): else the chain is brought
 *      there first. Who records without the tick in hand completes the window before: its row, THEN its next tick.
 *   U2 the cas notes all that the old revision has recorded ahead. It is wound up by whoever meets it: at or before u: the row is inserted;
 *      after u: withdrawn. THEN a cas forgets it and notes what had fired. THEN OK is said. Until then the new revision records nothing,
 *      and nobody updates again.
 *   U3 a tick of an older revision winds up what is left of that revision, THEN ends.
 * PROMISES: no instant fires twice, whatever the revisions; at rest each instant after the creation has fired that was in force at its
 * time, and no other (but `taken`, which the reply names, or what a dead caller of a pause left); after OK the old revision fires nothing after u.
 *
 * RUN: check.sh schedules.pml -DONE [..].  -DONE: one expander (else two).  N=2, NCRASH=1, NSTALL=0
 *   -DONE: 5.1 M states, 20-55 s    -DNCRASH=0 -DNSTALL=1 -DSPEC2=7 (two expanders, one stall): 57 M, 3.2 GB, 9 min    -DCREATE adds the creation
 * NOT MODELLED: jitter, windows of several instants, more than two revisions, backfill, clocks that differ.
 * BROKEN VARIANTS, each must fail:
 *   ROWFIRST    W1: the row, then the record                   TICKFIRST   W1: tick n+1, then the row
 *   ACKFIRST    W1: the ack, then the row                      NOFENCE     W1: the cas compares seq alone, not the revision
 *   RECOMPUTE   W2: computed anew, by other time zone rules    BLINDINSERT W3: written again although it has fired
 *   CASFIRST    F1: the cas, then the first tick               NOVOID      F2: the first tick just ends
 *   BLINDUPDATE U1: updated whatever the chain has reached     HALFHELP    U1: the helper does not complete the window before
 *   NORET       U2: what is ahead is not noted                 LASTONLY    U2: only the last window is noted
 *   NOINSERT    U2: at or before u nothing is inserted         NOTAKEN     U2: what had fired is not noted
 *   EARLYNEW    U2: the new revision does not wait             EARLYOK     U2: OK is said before the old revision is wound up
 *   OLDTICKENDS U3 (with -DPAUSE -DNCRASH=2): the old tick just ends
 * VACUITY1: an instant was taken. VACUITY2 (with -DCREATE): a first tick came before its cas, and the schedule lives. VACUITY3: a tick of
 * revision 1 wound up what a dead updater left. All must fail. */
#ifndef N
#define N 2
#endif
#ifndef NCRASH
#define NCRASH 1
#endif
#ifndef NSTALL
#define NSTALL 0
#endif
#define CHAIN(r,n) (4 + (r-1)*N + n - 1)  /* ticks: 0, 1 first ticks of the creation (two tries), 2, 3 of the update, then (revision, n = 1..N) */
#define NTICK (4 + 2*N)
byte tick[NTICK];
byte row[2*N];
#define ROW(r,t) row[(r-1)*N + t - 1]
byte now = 0, spec2 = 0, crash = 0, stall = 0;
byte ver = 0, rev = 0, seq = 0, win = 0, ahead = 0, cur = 0, u = 0, ret = 0, taken = 0, first = 0;     /* the register */
byte born = 0; bool busy = false, ok = false, voided = false, oldwound = false;
#define BIT(t) (1 << (t-1))
#define HAS(set,t) ((set >> (t-1)) & 1)
#define PAST (BIT(now+1) - 1)                                   /* the instants up to now */
#define IN(r,t) (r == 1 || ((spec2 >> (t-1)) & 1))

/* T = the next instant of revision r after c that was not taken; N+1: none */
inline nextT(r, c, tk) { T = c + 1; do :: T > N -> break :: T <= N && IN(r,T) && !HAS(tk,T) -> break :: T <= N && !(IN(r,T) && !HAS(tk,T)) -> T++ od }
/* of what was recorded before, what is still to come stays in the record */
#ifdef LASTONLY
#define RECORD win = T; cur = T; ver++; ahead = BIT(T)
#else
#define RECORD win = T; cur = T; ver++; ahead = (ahead & ~PAST) | BIT(T)
#endif
#define SNAP v = ver; rr = rev; sq = seq; w = win; rt = ret; uu = u; nextT(rr, cur, taken)
#define RESET i = 255; r = 0; n = 0; T = 0; v = 0; rr = 0; sq = 0; w = 0; rt = 0; uu = 0; tk = 0; if :: me == 0 -> busy = false :: else fi
/* before any step: a crash (the tick in hand comes again), or a stall (it comes to somebody else too) */
#define MAY if :: skip \
  :: crash < NCRASH -> crash++; if :: i < NTICK && tick[i] == 2 -> tick[i] = 1 :: else fi; goto dead \
  :: stall < NSTALL && i < NTICK && tick[i] == 2 -> stall++; tick[i] = 1 fi

inline fire(r, t) {
  assert(ROW(1,t) != 2 && ROW(2,t) != 2);                     /* never twice */
  assert(!(ok && r == 1 && t > u));                           /* nothing of the old revision after OK */
  ROW(r,t) = 2 }
inline put(r, t) { atomic { MAY; if
  :: ROW(r,t) == 0 -> ROW(r,t) = 1
#ifdef BLINDINSERT
  :: ROW(r,t) == 2 -> fire(r,t)
#endif
  :: else fi } }
inline putTick(k) { atomic { MAY; if :: tick[k] == 0 -> tick[k] = 1 :: else fi } }
/* U2: what the old revision had recorded is wound up, by what was read at v */
inline windOne(t) {
  atomic { if
    :: HAS(rt,t) ->
       MAY;
       if :: t <= uu && ROW(1,t) == 0 ->
#ifndef NOINSERT
             ROW(1,t) = 1
#else
             skip
#endif
          :: t > uu && ROW(1,t) == 2 -> tk = tk | BIT(t)
          :: t > uu && ROW(1,t) < 2 -> ROW(1,t) = 3
          :: else fi
    :: else fi } }
inline windUp() {
  windOne(1); windOne(2);
#if N > 2
  windOne(3);
#endif
  atomic { MAY;
#ifdef NOTAKEN
    tk = 0;
#endif
    if :: ver == v -> ret = 0; taken = tk; ver++ :: else fi; tk = 0 } }
/* the last recorded window (number sq - 1, instant w) is completed: rows, THEN the next tick */
inline complete() {
#ifdef TICKFIRST
  putTick(CHAIN(rr,sq)); put(rr, w)
#else
  put(rr, w); putTick(CHAIN(rr,sq))
#endif
}

proctype Expander(byte me) {
  byte i, r, n, T, v, rr, sq, w, rt, uu, tk;
dead:
  atomic { RESET }
end:
  atomic {
    (me == 0 || busy);                                         /* they are alike: the first one that is idle takes it */
    if :: tick[0] == 1 -> i = 0 :: tick[1] == 1 -> i = 1 :: tick[2] == 1 -> i = 2 :: tick[3] == 1 -> i = 3
       :: tick[4] == 1 -> i = 4 :: tick[5] == 1 -> i = 5 :: tick[6] == 1 -> i = 6 :: tick[7] == 1 -> i = 7
#if N > 2
       :: tick[8] == 1 -> i = 8 :: tick[9] == 1 -> i = 9
#endif
    fi;
    if :: me == 0 -> busy = true :: else fi;
    tick[i] = 2;
    if :: i < 2 -> r = 1; n = 0 :: i >= 2 && i < 4 -> r = 2; n = 0
       :: i >= 4 && i < 4+N -> r = 1; n = i - 3 :: i >= 4+N -> r = 2; n = i - 3 - N fi }
look:
  atomic { SNAP;
    if
    :: rr < r ->                                               /* F2: its cas has not come */
#ifdef NOVOID
       goto ack
#else
       goto void
#endif
    :: rr > r ->                                               /* U3 */
#ifndef OLDTICKENDS
       if :: rt != 0 -> goto wind :: else fi;
#endif
       goto ack
    :: rr == r ->
       if :: n == 0 && first != i -> goto ack :: else fi;      /* of a try that failed */
#ifndef EARLYNEW
       if :: rt != 0 -> goto wind :: else fi;
#endif
       if :: sq > n + 1 || (sq == n && T > N) -> goto ack      /* done by another one; or there is nothing more */
          :: sq == n + 1 -> goto found                        /* recorded, maybe not completed */
          :: sq == n && T <= N -> goto record fi
    fi }
void:
  atomic { MAY; if :: ver == v -> ver++; voided = true; goto ack :: else -> goto look fi }
wind:
  windUp();
  atomic { oldwound = (rr > r); goto look }
record:
#ifdef ROWFIRST
  put(rr, T);
#endif
  atomic { MAY;
#ifdef NOFENCE
    if :: seq == n && rev >= 1
#else
    if :: ver == v
#endif
          -> seq = n + 1; RECORD; w = T; sq = n + 1
       :: else -> goto look fi }
#ifdef ACKFIRST
  atomic { MAY; tick[i] = 3 }
#endif
  goto finish;
found:
#ifdef RECOMPUTE
  atomic { if :: w < N -> w++ :: skip fi }
#endif
finish:
  complete();
ack:
  atomic { MAY; tick[i] = 3; RESET; goto end } }

proctype Creator() {
  byte v, c, k, i, me; i = 255; me = 1;
again:
  atomic { v = ver; c = now };
#ifndef CASFIRST
  putTick(k);
#endif
  atomic { MAY; if :: ver == v -> rev = 1; cur = c; born = c; first = k; ver++
                   :: else -> if :: k == 0 -> k = 1; goto again :: else -> goto dead fi fi };
#ifdef CASFIRST
  putTick(k);
#endif
dead: atomic { v = 0; c = 0; k = 0 } }

proctype Updater() {
  byte i, r, n, T, v, rr, sq, w, rt, uu, tk, k, c, me; me = 1; i = 255;
  rev == 1; k = 2;
again:
  atomic { SNAP; c = now;
    if :: rt != 0 -> goto wind :: else fi;
#ifndef BLINDUPDATE
    if :: T <= c && T <= N -> goto bring :: else fi
#endif
  };
#ifndef PAUSE
#ifndef CASFIRST
  putTick(k);
#endif
#endif
  atomic { MAY;
    if :: ver == v -> rev = 2; first = k; seq = 0; u = c; cur = c; taken = 0;
#ifndef NORET
          ret = ahead;
#endif
          win = 0; ahead = 0; ver++
       :: else -> if :: k == 2 -> k = 3; goto again :: else -> goto dead fi fi };
#ifdef CASFIRST
  putTick(k);
#endif
#ifdef EARLYOK
  ok = true;
#endif
more:
  atomic { SNAP; if :: rt != 0 -> goto wind :: else -> ok = true; goto dead fi };
wind:
  windUp();
  if :: rr == 1 -> goto again :: else -> goto more fi;
bring:                                                         /* U1: the chain is brought to c */
#ifndef HALFHELP
  if :: sq > 0 -> complete() :: else fi;
#endif
  atomic { MAY; if :: ver == v -> seq = sq + 1; RECORD; w = T; sq++ :: else -> goto again fi }
  complete();
  goto again;
dead: atomic { RESET; k = 0; c = 0 } }

proctype Engine() {                                            /* never early; as late as it likes */
end:
  do
  :: atomic { now <= N -> now++ }
  :: atomic { now >= 1 && ROW(1,1) == 1 -> fire(1,1) }
  :: atomic { now >= 2 && ROW(1,2) == 1 -> fire(1,2) }
  :: atomic { now >= 1 && ROW(2,1) == 1 -> fire(2,1) }
  :: atomic { now >= 2 && ROW(2,2) == 1 -> fire(2,2) }
#if N > 2
  :: atomic { now >= 3 && ROW(1,3) == 1 -> fire(1,3) }
  :: atomic { now >= 3 && ROW(2,3) == 1 -> fire(2,3) }
#endif
  od }

init { atomic {
#ifndef PAUSE
#ifdef SPEC2
  spec2 = SPEC2;
#else
  if :: spec2 = 7 :: spec2 = 2 :: spec2 = 5 fi;                  /* all, the second one, all but the second one */
#endif
#endif
#ifdef CREATE
  run Creator();
#else
  rev = 1; ver = 1; tick[0] = 1;                                 /* created before */
#endif
#ifndef NOUPDATE
  run Updater();
#endif
  run Expander(0);
#ifndef ONE
  run Expander(1);
#endif
  run Engine() } }

#define ONCE(t) (ROW(1,t) == 2 || ROW(2,t) == 2)
#define DUE(t) (t > born && (rev == 1 || t <= u || IN(2,t)))
/* a pause whose caller died before its OK may leave the old window to the engine */
#define FINE(t) ((!DUE(t) || ONCE(t)) && (DUE(t) || !ONCE(t) || HAS(taken,t) || (rev == 2 && HAS(ret,t))))
active proctype Monitor() {
end: if
#ifdef VACUITY1
  :: atomic { taken != 0 && ok -> assert(false) }
#endif
#ifdef VACUITY2
  :: atomic { voided && ok && ROW(2,2) == 2 -> assert(false) }
#endif
#ifdef VACUITY3
  :: atomic { oldwound && crash > 0 && rev == 2 && ret == 0 && !ok -> assert(false) }
#endif
  :: atomic { timeout && rev >= 1 && now > N -> assert(FINE(1) && FINE(2) && FINE(N)) }
  fi }
