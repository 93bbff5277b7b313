/* outbox.pml: rows of a caller's database on their way to tasks, by two relays that crash and stall.
 *
 * WHAT: rows 1 = schedule a task with a key, 2 = schedule another one (its transaction commits or rolls back), 3 = cancel the key
 *   (committed after 1). vis[r]: 0 not committed, 1 in the outbox table, 2 gone from it.   A sealed batch b: mask = its rows, ex = its
 *   row is there, ep = how often it was taken over or made anew, over = its lease is over.   A send is a message (b, ep) that may arrive
 *   at any later time, also after its relay has died or another one has taken the batch; ans = it was answered OK.
 *   The server knows a request by its content and repeats its answer (known), for a day from when the request says it was made. Then it
 *   forgets what it was answered (FORGET), or what never came is a day old (AGE); nfold counts these days.
 *   old[b]: sends of a lower ep are older than that day.
 *   With SHUT their queue (a batch has one) may be shut, and opened again. ans: 1 taken; 2 the queue is shut, nothing of it is stored and
 *   the server remembers nothing.
 *   With CHAIN rows 1 and 3 may be one batch, each with a request of its own: 1 is its head, 3 its last. msgL, ansL, knownL, doneL and oldL
 *   are of the last. first[b]: the head is over and out of the batch.
 * RULES
 *   X1 SEAL: one transaction takes rows out of the outbox and writes the request, byte by byte as it will be sent.
 *   X2 SEND, THEN DONE: the sealed row goes when the answer has come, not before.
 *   X3 a row is not sealed while a sealed batch with its key is left, or a row with its key and a lower id; so batches need not wait for
 *      each other. What is known to be shut may stay behind, and others pass it. Of a chain the last is sent when the head is answered.
 *   X4 a relay that finds a sealed batch whose lease is over takes it and sends the same bytes.
 *   X5 a request says when it was made, and the server refuses one that is older than it remembers; a batch that was refused so is made
 *      anew in its place, by a transaction.
 *   X6 a batch that was refused since its queue is shut waits as the same bytes, of which some may still be on their way.
 * PROMISES: each committed row is applied, once; one that rolled back never; a cancel comes after what it cancels, and what is cancelled
 *   stays so.
 * BROKEN, each must fail: NOSEAL (rows are read, sent, THEN deleted: the next try has another batch)   TWOSTEPS (X1: rows deleted, THEN the
 *   request written)   DONEFIRST (X2)   OVERTAKE (X3: of a sealed batch)   HELDKEY (X3: of a row that stays
 *   behind)   NOTIME (X5: no word of when it was made)   CHAIN SIDEBYSIDE (X3: of a chain)   SHUT SHUTFINAL (X6: refused for good)   SHUT RESEAL (X6: its rows go
 *   back, and are sealed anew)
 * VACUITY (must fail): VACUITY1 another relay sent a batch again that was applied before   VACUITY2 a send was refused as too old
 *   VACUITY3 a batch was made anew and applied   SHUT VACUITY4 one that was refused as shut was applied
 *   CHAIN VACUITY5 the last of a chain was applied from what was left of it */
#ifndef NCRASH
#define NCRASH 2
#endif
#ifndef NOLD
#define NOLD 1
#endif
#define NB 3
#ifndef NE
#define NE 2
#endif
#define I(b,e) ((b)*NE+(e))
byte vis[4], mask[NB+1], ep[NB+1], old[NB+1], n[4], nb = 0, crashes = 0, nfold = 0; bool ex[NB+1], over[NB+1], known[NB+1], done[NB+1], knownm[8], msg[(NB+1)*NE];
byte ans[(NB+1)*NE]; bool shut = false, wasshut = false;
#ifdef CHAIN
bool first[NB+1], msgL[NE], knownL = false, doneL = false; byte ansL[NE], oldL = 0, cb = 0;
#define IS_CHAIN(b) (mask[b] == 5)
#define HEAD(b) (IS_CHAIN(b) -> 1 : mask[b])
#define HEADLEFT(b) (!IS_CHAIN(b) || !first[b])
#define HEADOVER(b) (!ex[b] || (IS_CHAIN(b) && first[b]))
#define AGES(b) if :: IS_CHAIN(b) -> oldL = ep[b] + 1 :: else fi
#else
#define IS_CHAIN(b) false
#define HEAD(b) mask[b]
#define HEADLEFT(b) true
#define HEADOVER(b) (!ex[b])
#define AGES(b) v1 = v1
#endif
#ifdef VACUITY5
bool v5 = false;
#else
#define v5 junk
#endif
bool rolled = false, cancelled = false;
#if defined(VACUITY1) || defined(VACUITY2) || defined(VACUITY5) || defined(VACUITY3) || defined(VACUITY4)
bool v1 = false, v2 = false, v3 = false, v4 = false, was2[NB+1];
#else
#define v1 junk
#define v2 junk
#define v3 junk
hidden byte junk;
#endif
byte busy = 0, apps = 2;
#define KEYED(b) ((mask[b] & 1) || (mask[b] & 4))
#define LEFT(b) (ex[b] && KEYED(b))
inline apply(m) {   /* schedules first, by the order within a request; a cancel is a request of its own */
  if :: (m & 1) -> n[1]++; assert(!cancelled) :: else fi;
  if :: (m & 2) -> assert(vis[2] != 0); n[2]++ :: else fi;
  if :: (m & 4) -> assert(n[1] > 0); n[3]++; cancelled = true :: else fi;
  assert(n[1] <= 1 && n[2] <= 1) }
#define LEFTKEY (LEFT(1) || LEFT(2) || LEFT(3))
#ifdef OVERTAKE
#define FREE1 true
#define FREE3 (vis[1] != 1)
#elif defined(HELDKEY)
#define FREE1 (!LEFTKEY)
#define FREE3 (!LEFTKEY)
#else
#define FREE1 (!LEFTKEY)
#define FREE3 (vis[1] != 1 && !LEFTKEY)       /* X3 */
#endif
#define CANPICK ((vis[1] == 1 && FREE1) || vis[2] == 1 || (vis[3] == 1 && FREE3))
inline pick(m) {    /* one verb; what is shut may stay behind */
  if :: vis[1] == 1 && FREE1 -> m = 1; if :: vis[2] == 1 -> m = 3 :: true fi
#ifdef CHAIN
     :: vis[1] == 1 && FREE1 && vis[3] == 1 -> m = 5
#endif
     :: vis[2] == 1 -> m = 2
     :: vis[3] == 1 && FREE3 -> m = 4 fi }
inline take(m) { if :: (m & 1) -> vis[1] = 2 :: else fi; if :: (m & 2) -> vis[2] = 2 :: else fi; if :: (m & 4) -> vis[3] = 2 :: else fi }
#if NE > 2
#define ENDED ans[I(b,0)] = 0; ans[I(b,1)] = 0; ans[I(b,2)] = 0
#else
#define ENDED ans[I(b,0)] = 0; ans[I(b,1)] = 0
#endif
#define GONE ex[b] = false; ENDED
#define GRAB busy++; ep[b]++; e = ep[b]; over[b] = false
#define MAYGRAB(b) (ex[b] && over[b] && ep[b] < NE - 1)                                          /* X4 */
#define ANY (vis[1] == 1 || vis[2] == 1 || vis[3] == 1)
active proctype App() { vis[1] = 1; atomic { vis[3] = 1; apps-- } }
active proctype App2() { if :: atomic { vis[2] = 1; apps-- } :: atomic { rolled = true; apps-- } fi }
active [2] proctype Relay() { byte b, e, m;
idle:
#ifdef NOSEAL
  do
  :: atomic { CANPICK -> busy++; pick(m) };
     if :: atomic { if :: !knownm[m] -> knownm[m] = true; apply(m) :: else fi };
           if :: atomic { take(m); busy--; m = 0 } :: atomic { crashes < NCRASH -> crashes++; busy--; m = 0 } fi
        :: atomic { crashes < NCRASH -> crashes++; busy--; m = 0 } fi
  od
#else
  do
  :: atomic { CANPICK && nb < NB -> busy++; pick(m); take(m);
#ifdef TWOSTEPS
     }; if :: atomic { crashes < NCRASH -> crashes++; busy--; m = 0; goto idle } :: true fi; atomic {
#endif
     nb++; b = nb; mask[b] = m; ex[b] = true; e = 0;
#ifdef CHAIN
     if :: m == 5 -> cb = b :: else fi;
#endif
     m = 0 }; goto hold
  :: atomic { MAYGRAB(1) -> b = 1; GRAB }; goto hold
  :: atomic { MAYGRAB(2) -> b = 2; GRAB }; goto hold
  :: atomic { MAYGRAB(3) -> b = 3; GRAB }; goto hold
  od;
hold:
  if
#ifdef CHAIN
  :: atomic { ex[b] && !over[b] && ep[b] == e && !HEADLEFT(b) -> goto last }
#endif
  :: atomic { ex[b] && !over[b] && ep[b] == e && HEADLEFT(b) -> ans[I(b,e)] = 0; msg[I(b,e)] = true }
  :: atomic { (!ex[b] || over[b] || ep[b] != e) -> busy--; b = 0; e = 0; goto idle }
  :: atomic { crashes < NCRASH -> crashes++; busy--; b = 0; e = 0; goto idle }
  fi;
#ifdef DONEFIRST
  ex[b] = false;
#endif
  if
  :: atomic { ans[I(b,e)] == 2 && ex[b] ->                                                          /* X6 the same bytes */
#ifdef SHUTFINAL
     GONE; busy--; b = 0; e = 0; goto idle }
#elif defined(RESEAL)
     GONE; vis[1] = 1; busy--; b = 0; e = 0; goto idle }
#else
     goto hold }
#endif
#ifdef CHAIN
  :: atomic {
#ifndef SIDEBYSIDE
       ans[I(b,e)] == 1 &&
#endif
       ex[b] && IS_CHAIN(b) -> if :: ans[I(b,e)] == 1 -> first[b] = true :: true fi; ans[I(b,e)] = 0 }; goto last
#endif
  :: atomic { ans[I(b,e)] == 1 && ex[b] && !IS_CHAIN(b) -> GONE; busy--; b = 0; e = 0; goto idle }                      /* X2 DONE, whoever has the lease by now */
  :: atomic { ex[b] && ep[b] == e && e < old[b] && e < NE - 1 -> ep[b]++; e = ep[b]; goto hold }   /* X5 made anew */
  :: atomic { over[b] || !ex[b] -> busy--; b = 0; e = 0; goto idle }                              /* gives up: whoever takes it next sends it again */
  :: atomic { crashes < NCRASH -> crashes++; busy--; b = 0; e = 0; goto idle }
  fi
#ifdef CHAIN
last:   /* its head was answered, by now or to whoever had it before */
  atomic { ansL[e] = 0; msgL[e] = true };
  if
  :: atomic { ansL[e] == 1 && ex[b] -> GONE; ansL[0] = 0; ansL[1] = 0; busy--; b = 0; e = 0; goto idle }
  :: atomic { ex[b] && ep[b] == e && first[b] && e < oldL && e < NE - 1 -> ep[b]++; e = ep[b]; goto last }   /* X5 made anew */
  :: atomic { over[b] || !ex[b] -> busy--; b = 0; e = 0; goto idle }
  :: atomic { crashes < NCRASH -> crashes++; busy--; b = 0; e = 0; goto idle }
  fi
#endif
#endif
}
/* messages arrive; leases end; days pass */
#ifdef NOTIME
#define TOOOLD(b,e) false
#else
#define TOOOLD(b,e) (e < old[b])      /* X5 */
#endif
#if defined(VACUITY4)
#define SAID2(b) was2[b] = true
#define APPLIED(b) if :: was2[b] -> v4 = true :: else fi
#else
#define SAID2(b) v1 = v1
#define APPLIED(b) v1 = v1
#endif
#define SAYS(b,e,a) ans[I(b,e)] = (ex[b] -> a : 0)     /* nobody waits for what is over */
#define ARRIVE(b,e) :: atomic { msg[I(b,e)] -> msg[I(b,e)] = false; \
    if :: TOOOLD(b,e) && !known[b] -> v2 = true \
       :: else -> \
          if :: known[b] -> if :: e > 0 -> v1 = true :: else fi; SAYS(b,e,1) \
             :: !known[b] && done[b] -> assert(!(mask[b] & 1) || !cancelled);     /* forgotten, and stored again */ \
                known[b] = true; SAYS(b,e,1) \
             :: !known[b] && !done[b] && shut && HEAD(b) != 4 -> SAYS(b,e,2); SAID2(b) \
             :: else -> apply(HEAD(b)); done[b] = true; known[b] = true; SAYS(b,e,1); APPLIED(b); \
                if :: old[b] > 0 -> v3 = true :: else fi fi fi }
#define ENDS(b) :: atomic { mask[b] != 0 && !over[b] -> over[b] = true }
#define FORGET(b) :: atomic { nfold < NOLD && known[b] && HEADOVER(b) -> nfold++; known[b] = false; old[b] = NE }
#define AGE(b) :: atomic { nfold < NOLD && ex[b] && !done[b] && ep[b] < NE - 1 -> nfold++; old[b] = ep[b] + 1; AGES(b) }
#ifdef CHAIN
#define ARRIVEL(e) :: atomic { msgL[e] -> msgL[e] = false; \
    if :: e < oldL && !knownL -> v2 = true \
       :: else -> if :: !knownL && !doneL -> apply(4); if :: first[cb] -> v5 = true :: else fi :: else fi; \
          doneL = true; knownL = true; ansL[e] = (ex[cb] -> 1 : 0) fi }
#define FORGETL :: atomic { nfold < NOLD && knownL && !ex[cb] -> nfold++; knownL = false; oldL = NE }
#define AGEL :: atomic { nfold < NOLD && ex[cb] && first[cb] && !doneL && ep[cb] < NE - 1 -> \
    nfold++; oldL = ep[cb] + 1; known[cb] = false; old[cb] = NE }
#endif
active proctype World() {
  do
#ifdef CHAIN
  ARRIVEL(0) ARRIVEL(1)
#if NE > 2
  ARRIVEL(2)
#endif
  FORGETL AGEL
#endif
  ARRIVE(1,0) ARRIVE(2,0) ARRIVE(3,0) ARRIVE(1,1) ARRIVE(2,1) ARRIVE(3,1)
#if NE > 2
  ARRIVE(1,2) ARRIVE(2,2) ARRIVE(3,2)
#endif
#ifdef SHUT
  :: atomic { !wasshut -> wasshut = true; shut = true }
  :: atomic { shut -> shut = false }
#endif
  ENDS(1) ENDS(2) ENDS(3) FORGET(1) FORGET(2) FORGET(3) AGE(1) AGE(2) AGE(3)
  od }
/* at rest: all that was committed is applied */
active proctype Judge() {
  atomic { apps == 0 && busy == 0 && !ANY && !ex[1] && !ex[2] && !ex[3] ->
    assert(n[1] == 1 && n[3] >= 1 && n[2] == (rolled -> 0 : 1));
#ifdef VACUITY1
    assert(!v1);
#endif
#ifdef VACUITY2
    assert(!v2);
#endif
#ifdef VACUITY3
    assert(!v3);
#endif
#ifdef VACUITY4
    assert(!v4);
#endif
#ifdef VACUITY5
    assert(!v5);
#endif
  } }
