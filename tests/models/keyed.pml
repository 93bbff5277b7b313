/* keyed.pml: the permits of one limit key, of the many that lie in one home. What is new over limits.pml: the home has one keeper and one
 *   register for all its keys, and an instance says of a key only what has changed.
 *
 * WHAT: one key of LIMIT permits. Its keeper (ktok, kholder) is that of its home. Instances call it, one call at a time: a statement, and its
 *   answer. Statements speak of other keys too, so they may leave this one out (chas). A call that is given up may be heard later (late).
 *   have, used   of an instance: permits that are free, deliveries in hand      dirty  what the keeper should hear of the key
 *   told         the present keeper has answered a statement of all      cur, now  of a statement: it is to the present keeper, of this round
 *   lent, old    of the keeper: what living instances have; what those had that died      known, since  who has said all; who, in this round
 *   out          deliveries of a dead instance that are with workers under a lease that is not over yet; another instance may adopt them
 * RULES
 *   P1 to P5 as in limits.pml: P1 lends what is free, P2 a new keeper asks all, P3 a grant answers the latest statement, P4 one return, P5 leases
 *      are over, THEN all state again, THEN what was old is free. A round is what P5 asks by.
 *   L1 The first statement to a keeper says all keys of the home of which there is something. One that leaves a key out says: as before.
 *      A keeper that has not heard all of an instance takes nothing less from it.
 *   L2 A key that has changed, or that was asked for, is said again in each statement until one was answered that says it.
 *   L3 A statement that is older than one that was heard counts for nothing.
 * PROMISES: deliveries of the key in hand under a lease never exceed LIMIT; at rest all its permits are free again.
 *
 * RUN: check.sh keyed.pml [-D..]   LIMIT=1, NCRASH=1, NLEAVE=1, NBREAK=1, NSTART=2
 * BROKEN VARIANTS, each must fail:
 *   FEWFIRST   L1: also the first one says what has changed          UNHEARD    L1: who has not said all is taken for who has
 *   SAIDONCE   L2: what was said is not said again                   ADOPTSILENT L2: an adopted delivery is no change
 *   ASKEDONCE  L2: what was asked for in vain is not said again      LATECOUNTS L3: what comes late counts
 * CAPONLY: judged by LIMIT alone; then too each of them fails but ASKEDONCE.
 * VACUITY1: a delivery was adopted and the pool is whole again. VACUITY2: a statement left out a key of which there is something. Both must fail. */
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef NCRASH
#define NCRASH 1
#endif
#ifndef NLEAVE
#define NLEAVE 1
#endif
#ifndef NBREAK
#define NBREAK 1
#endif
#ifndef NSTART
#define NSTART 2
#endif
#define B(m) (1 << (m))
#define ALL 6
#define NONE 0
#define ASKS 1
#define TOLD 2
#define AGAIN 3
byte ktok = 0, kholder = 0, known = 0, since = 0, lent[3], old = 0, starts = 0, crashes = 0, leaves = 0, breaks = 0;
bool waits = false, unknown = false, adopted = false, leftout = false;
byte have[3], used[3], out[3];
bool dirty[3], told[3];
/* the call: its statement, and the answer */
byte cs[3], cnum[3];
bool whole[3], chas[3], cwant[3], cur[3], now[3], changed[3], granted[3];
/* one that was given up */
byte lnum[3];
bool late[3], lwhole[3], lhas[3], lwant[3], lnow[3], lvoid[3];
#define RUNNING (used[1] + used[2] + out[1] + out[2])
#define OUT (out[1] + out[2])
#define FREE (LIMIT - lent[1] - lent[2] - old)
#define LENDS (kholder && lent[1] + lent[2] + old < LIMIT && known == ALL && since == ALL && !unknown)
#ifdef FEWFIRST
#define SAYSALL(m) false
#define TAKES(m, all) true
#elif defined(UNHEARD)
#define SAYSALL(m) (!told[m] && ktok == 1)
#define TAKES(m, all) true
#else
#define SAYSALL(m) (!told[m])
#define TAKES(m, all) ((all) || (known & B(m)))
#endif
#ifdef LATECOUNTS
#define LATER(m) false
#else
#define LATER(m) lvoid[m]
#endif
#define MARK(m) dirty[m] = true; changed[m] = true
#define NOLATE(m) late[m] = false; lwhole[m] = false; lhas[m] = false; lwant[m] = false; lnow[m] = false; lvoid[m] = false; lnum[m] = 0
#define NEWROUND since = 0; now[1] = false; now[2] = false; lnow[1] = false; lnow[2] = false
#define NEWKEEPER lent[1] = 0; lent[2] = 0; old = 0; known = 0; waits = true; unknown = true; told[1] = false; told[2] = false; \
  cur[1] = false; cur[2] = false; NOLATE(1); NOLATE(2); NEWROUND

inline hear(m, all, has, number, wanted, here, grant) {
  known = known | B(m);
  if
  :: has -> lent[m] = number
  :: !(has) && (all) -> lent[m] = 0
  :: else -> if :: lent[m] > 0 -> leftout = true :: else fi
  fi;
  if :: here -> since = since | B(m) :: else fi;
  if :: (wanted) && (has) && LENDS -> lent[m]++; grant = true :: else fi }

proctype Keeper() {                                        /* whoever it is: kholder */
  bool lost = false;
end:
  do
  :: atomic { kholder == 0 && ktok < 3 -> if :: kholder = 1 :: kholder = 2 fi; ktok++; NEWKEEPER }
  /* P5 */
  :: atomic { kholder && waits && OUT == 0 -> waits = false; unknown = false; old = 0; NEWROUND }
  :: atomic { cs[1] == ASKS ->
       if
       :: kholder && cur[1] && TAKES(1, whole[1]) -> hear(1, whole[1], chas[1], cnum[1], cwant[1], now[1], granted[1]); cs[1] = TOLD; lvoid[1] = late[1]
       :: else -> cs[1] = AGAIN fi }
  :: atomic { cs[2] == ASKS ->
       if
       :: kholder && cur[2] && TAKES(2, whole[2]) -> hear(2, whole[2], chas[2], cnum[2], cwant[2], now[2], granted[2]); cs[2] = TOLD; lvoid[2] = late[2]
       :: else -> cs[2] = AGAIN fi }
  /* L3: its answer is lost */
  :: atomic { late[1] ->
       if
       :: kholder && !LATER(1) && TAKES(1, lwhole[1]) -> hear(1, lwhole[1], lhas[1], lnum[1], lwant[1], lnow[1], lost)
       :: else fi; NOLATE(1); lost = false }
  :: atomic { late[2] ->
       if
       :: kholder && !LATER(2) && TAKES(2, lwhole[2]) -> hear(2, lwhole[2], lhas[2], lnum[2], lwant[2], lnow[2], lost)
       :: else fi; NOLATE(2); lost = false }
  od }

inline over(m) { cs[m] = NONE; cnum[m] = 0; whole[m] = false; chas[m] = false; cwant[m] = false; cur[m] = false; now[m] = false; changed[m] = false; granted[m] = false }

proctype Instance(byte m) {
end:
  do
  /* the call, when there is something to say, or another round, or something to ask for */
  :: atomic { cs[m] == NONE && kholder && (dirty[m] || !told[m] || !(since & B(m)) || (!have[m] && starts < NSTART && LENDS)) ->
       cs[m] = ASKS; cur[m] = true; now[m] = true; whole[m] = SAYSALL(m);
       if :: !have[m] && starts < NSTART -> cwant[m] = true :: cwant[m] = false fi;
       chas[m] = ((whole[m] -> have[m] + used[m] > 0 : dirty[m]) || cwant[m]); cnum[m] = (chas[m] -> have[m] + used[m] : 0); changed[m] = false;
#ifdef SAIDONCE
       dirty[m] = false
#endif
     }
  /* P3 */
  :: atomic { cs[m] == TOLD -> have[m] = have[m] + granted[m];
       if :: cur[m] -> told[m] = true; if :: chas[m] || whole[m] -> dirty[m] = changed[m] :: else fi :: else fi; over(m) }
  :: atomic { cs[m] == AGAIN -> told[m] = false; over(m) }
  :: atomic { breaks < NBREAK && (cs[m] == ASKS || cs[m] == TOLD) -> breaks++;
       if
       :: cs[m] == ASKS && cur[m] && !late[m] -> late[m] = true; lwhole[m] = whole[m]; lhas[m] = chas[m]; lnum[m] = cnum[m]; lwant[m] = cwant[m]; lnow[m] = now[m]
       :: skip
       fi;
#ifndef ASKEDONCE
       if :: cwant[m] -> dirty[m] = true :: else fi;
#endif
       over(m) }
  :: atomic { have[m] && starts < NSTART -> starts++; have[m]--; used[m]++; assert(RUNNING <= LIMIT) }
  :: atomic { used[m] -> used[m]--; have[m]++ }
  /* P4 */
  :: atomic { have[m] -> have[m]--; MARK(m) }
  /* a dead one's delivery, of which its worker says here that it has it */
  :: atomic { out[3 - m] -> out[3 - m]--; used[m]++; adopted = true; assert(RUNNING <= LIMIT);
#ifndef ADOPTSILENT
       MARK(m)
#endif
     }
  :: atomic { out[m] -> out[m]-- }                         /* its lease is over, or it has ended */
  :: atomic { crashes < NCRASH -> crashes++; out[m] = out[m] + used[m]; used[m] = 0; have[m] = 0; told[m] = false; dirty[m] = false; over(m); NOLATE(m);
       if :: kholder == m -> kholder = 0
          :: kholder && kholder != m ->
             if :: !(known & B(m)) || !(since & B(m)) -> unknown = true :: else fi;
             old = old + lent[m]; lent[m] = 0; known = known & ~B(m); since = since & ~B(m); waits = true
          :: else fi }
  :: atomic { leaves < NLEAVE && kholder == m -> leaves++; kholder = 0 }
  od }

proctype Rest() {
end:
  timeout ->
#ifndef CAPONLY
  assert(kholder == 0 || (FREE == LIMIT && known == ALL && since == ALL));
#endif
  assert(kholder != 0);
#ifdef VACUITY1
  assert(!(adopted && FREE == LIMIT));
#endif
#ifdef VACUITY2
  assert(!leftout);
#endif
}
init { atomic { run Keeper(); run Instance(1); run Instance(2); run Rest() } }
