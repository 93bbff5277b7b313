/* moves.pml: rescheduling and cancelling one task, racing, with crashes.
 *
 * WHAT: the task lives in row A; one or two reschedules want it in row B (the first) and C (the second), each in a partition of its own.
 *   row, cc, mc, sr   plain QUORUM writes: 0 absent, 1 in flight (a read may see it or not), 2 acknowledged (every read sees it)
 *                     row = the row, cc = its `cancelled` cell, mc = the `moved` cell of A (B and C are born flagged), sr = its settle record
 *   moves             LWT and SERIAL reads only, so one atomic step each (a crash in the middle = it happened, or it did not)
 *   holder            one per partition at a time; it may crash (NCRASH in all) or leave gracefully (NLEAVE), then the next one comes.
 *                     Rows of a finished partition are gone.
 * RULES (M = mover, C = cancel, H = holder)
 *   M1 LWT gen+1 MOVING source := place, target := T, IF nothing changed and not MOVING.   place = home if there is no moves row,
 *      target if MOVED, source if FAILED. A target row is a new row for each generation (its key holds the generation).
 *   M2 quorum-insert T, flagged.       M3 quorum-write `moved` on the home row.
 *   M4 read the source's control row freshly, ask the holder: it suspends the row and answers REMOVED, or FIRED, or CANCELLED;
 *      no holder: quorum-read the settle records; partition finished: FIRED.
 *   M5 then quorum-read the source row's `cancelled` cell, whatever the holder answered.
 *   M6 LWT MOVING -> MOVED (removed, not cancelled) or FAILED, IF gen is mine and MOVING.
 *   H1 a flagged row is suspended when merged, and so is a row that a mover asked for, known or not. A row not yet known has no body: it
 *      needs a page read after the holder's token LWT, cells included, before anything else. A suspended row fires only after a SERIAL read of
 *      moves says place = this row; elsewhere: drop it. An ask that comes between that read and its use wins.
 *   H2 MOVING, met by anybody but its mover (holder of either row, cancel, other reschedule): LWT FAILED. Only the mover says MOVED.
 *   H3 a partition is not finished while a row is suspended; a holder answers only after it has read the settle records.
 *   X1 moves expires (its retention after) the last of home, every source and every target so far, rewritten whole at each LWT: not before
 *      all their partitions are finished. Retention is longer than any mover sleeps (an expired row starts again at generation 1).
 *   C1 quorum-write `cancelled` on row p (first the home row), THEN serial-read moves (MOVING: rule H2); place is another row: again there.
 *   C2 then read the control row of p freshly and ask its holder; none: settle records; not fired: CANCELLED.
 * PROMISES: no delivery starts after CANCELLED; deliveries <= 1 + those lost in a crash before their settle record was acknowledged; at rest,
 * if nobody ever tried to cancel, one delivery was confirmed; once moves is decided only its place fires.
 *
 * RUN:  spin -a [-D..] moves.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c && ./pan -m1000000 -E
 *   (no switch: one reschedule, one cancel, 1 crash, 1 graceful leave)   1.0 M states, 1 s
 *   -DNM=2 -DNOCANCEL            (two reschedules, same faults)          12 M states, 0.8 GB, 24 s (optional)
 *   -DNM=2 -DNOCANCEL -DNLEAVE=0                                         7 M states, 0.6 GB, 10 s
 *   -DNM=2 -DNCRASH=0 -DNLEAVE=0 (two reschedules and a cancel)          30 M states, 1.7 GB, 56 s (optional)
 *   -DINTURN: the second reschedule begins when the first one has said MOVED (smaller)
 *   "At rest" is only checked with -DNOCANCEL (a cancel that was tried may drop the task). Not modelled: stale holders (cancel.pml),
 *   a target partition that closes before M2 (then the mover says FAILED and starts again with another target).
 * BROKEN VARIANTS, each must fail:
 *   OLDFIRESBLIND   the loader of the home row ignores `moved`           TARGETBLIND  a target row is fired without asking moves
 *   DECIDEBLIND     MOVED without M4                                     CANCELREADFIRST  moves is read before the cell is written
 *   CANCELNOLOOP    C1 without "again there" (needs NM=2)                NOCELLCHECK  no M5
 *   NOSOURCE        no `source` in moves: a target row whose generation is superseded is dropped (needs NM=2)
 *   HELPNOINSERT    a second reschedule finishes the first (asks, MOVED) without inserting its target row (needs NM=2)
 *   RESOLVERACE     H1: the answer of moves is used although a mover asked in between (needs NM=2)
 *   UNKNOWNFREE     H1: asked for a row it does not know, the holder says REMOVED and remembers nothing
 *   FINISHBLIND     H3: a suspended row is counted as moved (-DNOCANCEL)              ASKEARLY  H3: answers before it has read the settle records (needs NLEAVE=1)
 *   EXPIREATTARGET  X1: expires when the target is finished              EXPIRENOSOURCE  X1: home and last target only (needs NM=2)
 *   EXPIREONCE      X1: set by the first LWT, not rewritten (needs NM=2)
 * VACUITY1: B is delivered after a move. VACUITY2: CANCELLED after a move. VACUITY3: moves expired after a move
 * (all must fail). */
#ifndef NM
#define NM 1
#endif
#ifndef NCRASH
#define NCRASH 1
#endif
#ifndef NLEAVE
#define NLEAVE 1
#endif
#define A 0
byte row[3], cc[3], sr[3]; byte mc = 0; bool conf[3];          /* conf: the settle record says done (confirmed by the worker) */
byte g = 0, ms = 0, src = 0, tgt = 0;                          /* moves */
bool ex[3]; byte movers = NM;                                  /* ex: its expiry counts this place; movers: under way */
#define NONE 0
#define MOVING 1
#define MOVED 2
#define FAILED 3
#define PLACE (ms == NONE -> A : (ms == MOVED -> tgt : src))
bool held[3], up[3], fin[3];                                   /* control row names a holder; it answers; partition finished */
byte st[3];                                                    /* its memory: */
#define UNKNOWN 0
#define DUE 1
#define SUSP 2
#define CLEAR 3                                                /* suspended, and an answer "place = this row" is on its way */
#define SENT 4
#define ENDED 5
bool sus[3];                                                   /* a mover asked for a row it does not know yet (no body, no cells) */
bool cx[3];                                                    /* remembered as cancelled */
byte pg[3];                                                    /* page on its way: 0 none, 1 plain row, 2 flagged row, 3 cancelled row */
byte fires = 0, lost = 0, crashes = NCRASH, leaves = NLEAVE; bool cancelled = false, expired = false;
#define ABORT_IF_MOVING if :: ms == MOVING -> ms = FAILED :: else fi
#define RAM_GONE up[p] = false; st[p] = UNKNOWN; cx[p] = false; pg[p] = 0; sus[p] = false

proctype Holder(byte p) {
acquire:
  atomic { !fin[p] -> held[p] = true;
#ifdef ASKEARLY
    up[p] = true
#endif
  };
  atomic { if :: sr[p] >= 1 -> st[p] = ENDED :: sr[p] < 2 -> skip fi; up[p] = true };
  do
  :: atomic { pg[p] == 0 && row[p] >= 1 && st[p] == UNKNOWN ->             /* load, sweep or hint: the page is read ... */
       if :: cc[p] >= 1 -> pg[p] = 3
          :: cc[p] < 2 && (p != A || mc >= 1) -> pg[p] = 2
          :: cc[p] < 2 && p == A && mc < 2 -> pg[p] = 1 fi }
  :: atomic { pg[p] != 0 ->                                                /* ... and merged later */
       if :: pg[p] == 3 -> cx[p] = true
          :: pg[p] != 3 && st[p] == UNKNOWN ->
#ifdef OLDFIRESBLIND
               if :: p == A -> st[p] = DUE :: else -> st[p] = SUSP fi
#elif defined(TARGETBLIND)
               if :: p != A || pg[p] == 1 -> st[p] = DUE :: else -> st[p] = SUSP fi
#else
               st[p] = (pg[p] == 1 && !sus[p] -> DUE : SUSP)
#endif
          :: else fi; pg[p] = 0 }
  :: atomic { cx[p] && st[p] <= CLEAR -> st[p] = ENDED }
  :: atomic { st[p] == SUSP && !cx[p] ->                                   /* SERIAL read of moves */
       if :: ms == MOVING && (p == src || p == tgt) -> ms = FAILED         /* (LWT) */
#ifdef NOSOURCE
          :: ms != MOVING && p == 1 && g == 2 -> st[p] = ENDED
          :: ms != MOVING && PLACE == p && !(p == 1 && g == 2) -> st[p] = CLEAR
#else
          :: ms != MOVING && PLACE == p -> st[p] = CLEAR
#endif
          :: ms != MOVING && PLACE != p -> st[p] = ENDED
          :: ms == MOVING && p != src && p != tgt -> st[p] = ENDED fi }
  :: atomic { st[p] == CLEAR && !cx[p] -> st[p] = DUE }
  :: atomic { st[p] == DUE && !cx[p] -> 
       assert(!cancelled); assert(fires <= lost);
       assert(ms == NONE || ms == MOVING || p == PLACE);
       fires++; st[p] = SENT }
  :: atomic { st[p] == SENT -> st[p] = ENDED; conf[p] = true; sr[p] = 1 }
  :: atomic { st[p] == ENDED && sr[p] == 1 -> sr[p] = 2 }
  :: atomic { crashes > 0 && (st[p] != UNKNOWN || pg[p] != 0) -> crashes--; 
       if :: st[p] == SENT || sr[p] == 1 -> lost++ :: else fi; RAM_GONE; goto acquire }
  :: atomic { leaves > 0 && st[p] != SENT && sr[p] != 1 -> leaves--; RAM_GONE; held[p] = false; goto acquire }
#ifdef FINISHBLIND
  :: atomic { (st[p] == ENDED || st[p] == SUSP) && sr[p] != 1 -> RAM_GONE; fin[p] = true; row[p] = 0; break }
#else
  :: atomic { st[p] == ENDED && sr[p] != 1 -> RAM_GONE; fin[p] = true; row[p] = 0; break }
#endif
  od }

#define MAYDIE if :: skip :: goto out fi
proctype Mover(byte t) {
  byte s, mine; bool h, ok;
#ifdef INTURN
  if :: t == 2 -> ms == MOVED :: else fi;
#endif
#ifdef HELPNOINSERT
  atomic { if :: ms == MOVING && !held[src] && sr[src] == 0 && cc[src] == 0 -> mc = 2; ms = MOVED; goto out :: else fi };
#endif
  atomic { if :: ms == MOVING -> if :: ms = FAILED :: goto out fi :: else fi;        /* M1 */
           s = PLACE; g++; mine = g; ms = MOVING; src = s; tgt = t;
#ifdef EXPIREONCE
           if :: g == 1 -> ex[A] = true; ex[t] = true :: else fi
#elif defined(EXPIRENOSOURCE)
           ex[A] = true; ex[1] = false; ex[2] = false; ex[t] = true
#elif defined(EXPIREATTARGET)
           ex[1] = false; ex[2] = false; ex[t] = true
#else
           ex[A] = true; ex[s] = true; ex[t] = true
#endif
         };
  atomic { MAYDIE; row[t] = 1 };                                                     /* M2 */
  atomic { if :: skip :: row[t] == 1 -> if :: row[t] = 0 :: skip fi; goto out fi; row[t] = 2 };
  if :: s == A -> atomic { MAYDIE; if :: mc == 0 -> mc = 1 :: else fi }; atomic { MAYDIE; mc = 2 }   /* M3 */
     :: else fi;
  ok = true;
#ifndef DECIDEBLIND
ask:
  h = held[s];                                                                       /* M4 */
  if
  :: atomic { fin[s] -> ok = false }
  :: atomic { !fin[s] && h && up[s] ->
       if :: st[s] == SENT || (st[s] == ENDED && (cx[s] || conf[s])) -> ok = false
          :: cx[s] -> ok = false
#ifdef RESOLVERACE
          :: st[s] == CLEAR && !cx[s] -> skip
          :: st[s] < CLEAR && !cx[s] -> if :: st[s] == UNKNOWN -> sus[s] = true :: else -> st[s] = SUSP fi
#elif defined(UNKNOWNFREE)
          :: st[s] == UNKNOWN && !cx[s] -> skip
          :: st[s] != UNKNOWN && st[s] <= CLEAR && !cx[s] -> st[s] = SUSP
#else
          :: st[s] <= CLEAR && !cx[s] -> if :: st[s] == UNKNOWN -> sus[s] = true :: else -> st[s] = SUSP fi
#endif
          :: st[s] == ENDED && !cx[s] && !conf[s] -> skip                            /* dropped: then moves is decided already */
       fi }
  :: atomic { !fin[s] && h && !held[s] -> goto ask }
  :: atomic { !fin[s] && !h -> if :: sr[s] >= 1 -> ok = false :: sr[s] < 2 -> skip fi }
  fi;
#endif
#ifndef NOCELLCHECK
  atomic { if :: cc[s] >= 1 -> ok = false :: cc[s] < 2 -> skip fi };                 /* M5 */
#endif
  atomic { MAYDIE; if :: ms == MOVING && g == mine -> ms = (ok -> MOVED : FAILED) :: else fi };   /* M6 */
out: movers-- }

#define PAST(p) (!ex[p] || fin[p])
active proctype Expiry() {                                                           /* X1 */
end: do
  :: atomic { ms != NONE && movers == 0 && PAST(0) && PAST(1) && PAST(2) ->
       ms = NONE; g = 0; src = 0; tgt = 0; expired = true; break }
  od }

proctype Cancel() {
  byte p = A; bool h;
#ifdef CANCELREADFIRST
  atomic { ABORT_IF_MOVING; p = PLACE };
  cc[p] = 1; cc[p] = 2;
#else
again:
  cc[p] = 1; atomic { MAYDIE; cc[p] = 2 };                                           /* C1 */
  atomic { ABORT_IF_MOVING; if :: PLACE != p -> p = PLACE;
#ifdef CANCELNOLOOP
                               goto last
#else
                               goto again
#endif
                            :: else fi };
#ifdef CANCELNOLOOP
  goto ask;
last: cc[p] = 1; cc[p] = 2;
#endif
#endif
ask:
  h = held[p];                                                                       /* C2 */
  if
  :: atomic { fin[p] -> goto out }                                                   /* FINISHED */
  :: atomic { !fin[p] && h && up[p] -> if :: st[p] == SENT || conf[p] -> goto out :: else -> cx[p] = true fi }
  :: atomic { !fin[p] && h && !held[p] -> goto ask }
  :: atomic { !fin[p] && !h -> if :: sr[p] >= 1 -> goto out :: sr[p] < 2 -> skip fi }
  fi;
  cancelled = true;
out: skip }

init { atomic { row[A] = 2; run Holder(0); run Holder(1); run Mover(1);
#if NM > 1
  run Holder(2); run Mover(2);
#endif
#ifndef NOCANCEL
  run Cancel()
#endif
  } }

active proctype Monitor() {
end: if
#ifdef VACUITY1
  :: atomic { conf[1] && ms == MOVED && tgt == 1 -> assert(false) }
#elif defined(VACUITY2)
  :: atomic { cancelled && ms == MOVED && up[1] && cx[1] -> assert(false) }
#endif
#ifdef VACUITY3
  :: atomic { expired && conf[1] && mc == 2 -> assert(false) }
#endif
  :: timeout -> assert(conf[0] || conf[1] || conf[2] || cc[0] + cc[1] + cc[2] > 0)
  fi }
