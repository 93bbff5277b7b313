/* places.pml: however often a call is tried, its task is taken in at one place only, and each try finds that place.
 *
 * WHAT: one task whose call is tried NT times, by instances that share nothing but the store; each try may stop for ever after any step.
 * Place 0 is the task's own instant, which every try computes from the call; place k > 0 is the instant that try k would choose for a task
 * that is too late for where it was to be. Each place lies in a partition with a holder of its own, who closes, scans, takes in, sends,
 * settles, moves `verified`, stops answering, is replaced or lets go, at any time. A caller cancels by the id of any try that was answered
 * (a move leaves its source in the same steps: moves.pml).
 *   row[p]     the row of the task at place p is durable (whichever try wrote it, it is the same row)
 *   shut[p]    `closing` is beyond place p            seen[p]   that part was scanned by who closed it
 *   mem[p]     the holder has the row                 low[p]    its floor is beyond p; the change of `verified` is on its way
 *   past[p]    `verified` is beyond p: nobody reads a row there any more, whoever is the holder
 *   rec[p]     a settle record says how the row ended
 *   hold[p]    the control row names a holder (who may be paused, or dead) or nobody
 *   at[]       the register of the message: further instants, in the order in which they were added; one compare-and-set each
 * RULES
 *   P1 a try writes the row, THEN reads the control row: before `closing` it counts; behind `verified` see P2; between them the holder is
 *      asked: it has taken the row in, or the control row is read again. Only where that names nobody it counts all the same.
 *   P2 a place is left when the control row says that `verified` is beyond it, and a look at the records, THEN, finds no end there.
 *   P3 the next place is the next instant of the register; where there is none, one compare-and-set adds one, and whoever loses it goes where
 *      the register says. THEN the row is written there, as by P1.
 * PROMISES: of one task one row is sent (the same row twice where a holder was replaced: closing.pml); after CANCELLED none is; a task that
 * was acknowledged is sent, or cancelled; all tries that are answered name the same place.
 *
 * RUN: spin -a places.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000
 * BROKEN VARIANTS, each must fail (spin -a -DNAME ...):
 *   READFIRST    P1: the control row is read before the row is written
 *   SILENTMOVES  P1: a place whose holder does not answer is left
 *   FLOORMOVES   P1: a place is left because the holder's floor is beyond it; the holder may die before `verified` is
 *   OVERCOUNTS   P1: a holder whose lease is over counts as nobody: it may only have been paused
 *   NOLOOK       P2: whether the row has ended is not looked at
 *   LOOKFIRST    P2: the records are read before `verified`
 *   NOCAS        P3: the register is read, then written
 *   OWNPLACE     P3: whoever loses goes to his own instant
 *   ROWFIRST     P3: the row is written at the new place, and told, before the register says so
 *   STARTNOW     P3: a late try begins at its own instant
 * VACUITY1 (a row at a second instant of the register is sent), VACUITY2 (a late try finds that the task has ended at place 0) and VACUITY3
 * (a task is cancelled at a later place) must fail too. */
#ifndef NT
#define NT 2
#endif
#ifndef NDEAD
#define NDEAD 1                                   /* how many holders are replaced or stop answering */
#endif
#define NONE 255
#define HELD 1
#define FREE 0
bool row[NT+1], shut[NT+1], seen[NT+1], mem[NT+1], low[NT+1], past[NT+1], rec[NT+1], hold[NT+1], mark[NT+1], sent[NT+1];
byte at[2] = NONE; byte told = NONE; byte dead = 0;
bool cancelled = false;
#define MAYSTOP if :: true :: goto stopped fi
#if defined(VACUITY1) || defined(VACUITY2) || defined(VACUITY3)
bool second = false, found = false, later = false;
#define IS(x) x = true
#else
#define IS(x) skip
#endif

/* One of each place: who it is changes, what it does not. */
proctype Holder(byte p) {
  byte n = 0;
  do
  :: atomic { hold[p] == FREE -> hold[p] = HELD; low[p] = past[p]; seen[p] = shut[p]; mem[p] = row[p] && !past[p] && !rec[p] }
  :: atomic { hold[p] == HELD && !shut[p] -> shut[p] = true }
  :: atomic { hold[p] == HELD && shut[p] && !seen[p] -> seen[p] = true; mem[p] = mem[p] || (row[p] && !rec[p]) }
  :: atomic { hold[p] == HELD && mem[p] && !mark[p] && !sent[p] ->
       assert(!cancelled);
       n = 0; do :: n <= NT -> assert(!sent[n]); n++ :: else -> break od; n = 0;
       sent[p] = true;
#ifdef VACUITY1
       if :: at[1] == p -> second = true :: else fi
#endif
     }
  :: atomic { hold[p] == HELD && mem[p] && (sent[p] || mark[p]) -> rec[p] = true; mem[p] = false }
  :: atomic { hold[p] == HELD && seen[p] && !low[p] && !mem[p] -> low[p] = true }
  :: atomic { hold[p] == HELD && low[p] && !past[p] -> past[p] = true }
  :: atomic { hold[p] == HELD && dead < NDEAD -> dead++; mem[p] = false; low[p] = past[p]; seen[p] = shut[p];
       if :: hold[p] = FREE                       /* it lets go */
          :: mem[p] = row[p] && !past[p] && !rec[p]   /* another one takes over */
       fi }
  od
}

inline tell(q) { atomic { assert(told == NONE || told == q); told = q; goto stopped } }

proctype Try(byte k) {
  byte p = 0, next = NONE; bool c, v, h, r;
#ifdef STARTNOW
  if :: shut[0] -> p = k :: else fi;
#endif
again:
  MAYSTOP;
#ifdef READFIRST
  atomic { c = shut[p]; v = past[p] };
  row[p] = true;
#else
  row[p] = true;
  MAYSTOP;
#ifdef LOOKFIRST
  r = rec[p];
#endif
  atomic { c = shut[p]; v = past[p] };
#endif
ask:
  if
  :: !c -> tell(p)
  :: v -> goto passed
  :: c && !v ->
     MAYSTOP;
     if
     :: atomic { hold[p] == HELD && !low[p] -> mem[p] = mem[p] || !rec[p] }; tell(p)
#ifdef FLOORMOVES
     :: hold[p] == HELD && low[p] -> goto passed
#endif
#ifdef SILENTMOVES
     :: goto passed
#endif
#ifdef OVERCOUNTS
     :: !past[p] -> tell(p)
#endif
     :: atomic { hold[p] == FREE && !past[p] -> goto counts }
     :: atomic { past[p] -> c = true; v = true };
#ifdef LOOKFIRST
        r = rec[p];
#endif
        goto passed
     fi
  fi;
counts: tell(p);
passed:
  MAYSTOP;
#ifndef LOOKFIRST
  r = rec[p];
#endif
#ifndef NOLOOK
  if :: r -> 
#ifdef VACUITY2
       if :: p == 0 && sent[0] -> found = true :: else fi;
#endif
       tell(p)
     :: else fi;
#endif
  MAYSTOP;
#ifdef ROWFIRST
  if :: p == 0 -> row[k] = true; if :: !shut[k] -> tell(k) :: else fi :: else fi;
#endif
  /* The register. */
#ifdef NOCAS
  d_step { if :: p == 0 -> next = at[0] :: p != 0 && at[0] == p -> next = at[1] :: else -> next = NONE fi };
  if :: next == NONE && p != k ->
        next = k;
        if :: p == 0 -> at[0] = k :: else -> at[1] = k fi
     :: next == NONE && p == k -> goto stopped
     :: else
  fi;
#else
  atomic {
    if :: p == 0 -> next = at[0] :: p != 0 && at[0] == p -> next = at[1] :: else -> goto stopped fi;
    if :: next == NONE && p != k && at[0] != k ->
          next = k;
          if :: p == 0 -> at[0] = k :: else -> at[1] = k fi
       :: next == NONE && (p == k || at[0] == k) -> goto stopped
       :: else
    fi };
#ifdef OWNPLACE
  next = k;
#endif
#endif
  if :: next == p -> goto stopped :: else fi;
  p = next; next = NONE;
  goto again;
stopped: skip
}

proctype Cancel() {
  byte q;
  told != NONE; q = told;
  mark[q] = true;
  atomic {                                        /* the holder of that place, or the records */
    if :: sent[q] || (rec[q] && sent[q]) -> goto stopped
       :: else -> cancelled = true;
#ifdef VACUITY3
          if :: q != 0 -> later = true :: else fi
#endif
    fi };
stopped: skip
}

init { atomic { byte k = 1;
  run Cancel();
  run Holder(0);
  do :: k <= NT -> run Holder(k); run Try(k); k++ :: else -> break od } }

active proctype Monitor() {
end: if
#ifdef VACUITY1
  :: atomic { second -> assert(false) }
#endif
#ifdef VACUITY2
  :: atomic { found -> assert(false) }
#endif
#ifdef VACUITY3
  :: atomic { later -> assert(false) }
#endif
  :: timeout -> atomic { byte n = 0; bool was = cancelled; do :: n <= NT -> was = was || sent[n]; n++ :: else -> break od; assert(was || told == NONE) }
  fi
}
