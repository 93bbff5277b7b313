/* carry.pml: a task that leaves its row alive (retry, guard, backlog, hand-over) and the ack that may come at any moment.
 *
 * WHAT: one task (one generation) and three places for its row, each in a partition of its own: 0 home, 1 and 2 where it is carried to.
 *   row           the row, a plain QUORUM write: 0 absent, 1 in flight (a read may see it or not), 2 acknowledged (every read sees it);
 *                 rl = it says "under a lease"
 *   vk, vt, fl    settle records of the row, plain QUORUM writes too: the latest acknowledged one and its token; fl = those in flight
 *   ver           control row, LWT only: verified has passed the place. Place 1 may be closed over, scanned and passed before the row is
 *                 seen there, in one step (what may happen in between is closing.pml's matter)
 *   d             the delivery sent from a place: 0 none, 1 live (its lease is extended), 2 stalled (its lease may run out),
 *                 3 written off (lease run out, or its holder crashed); a worker of 2 or 3 may still ack or nack
 *   holder        one per partition at a time; it may crash (NCRASH in all) or leave gracefully (NLEAVE), then the next one comes.
 *                 A crash may leave a stale holder behind (NSTALE) that goes on with the carry that it had begun, and with nothing else.
 * RULES
 *   K1 record first (it says the place, the version and the lease end), THEN the row, through the full insert: write, THEN read closing.
 *      Below it: the place's holder is asked and adopts the row; no answer: wait for the next holder.
 *   K2 `verified` passes the record only when that row is acknowledged. A new holder goes on with every carried record above `verified`.
 *   K3 the insert meets BELOW_FLOOR: THEN read the settle records of that place. Done there: done here. Carried there: carry to where
 *      that record says. Nothing: nobody will ever load it there; a later place. Either way it is written down first (a new record, or FORWARD on the abandoned row), THEN the row.
 *   K4 of several records of one row the one of the latest (token, sequence) counts. One that an older token wrote may be in flight still
 *      (only its last append can be): it is repeated under the own token before anything is done on the strength of it.
 *   L1 a row under a live lease does not fire; at the lag limit it is carried again, and the lease with it.
 *   L2 a graceful leaver first carries what is in flight; its successor inserts the row from the record, lease included.
 *   A1 an ack of any attempt asks the holder of the place that it was sent from; what that one has carried is followed along
 *      acknowledged records. A row that is open there ends; a row not known there yet: not confirmed, the worker asks again.
 *   A2 an ack is confirmed when the `done` record is acknowledged.     A3 a nack of an older attempt is ignored.
 * PROMISES: at rest some ack is durable (nothing is lost); nothing is delivered after a confirmed ack, nor while an earlier delivery is
 * live or may be (no duplicate but of what a crash, a stall or a nack wrote off). Both but for a fork: a later holder did not see the
 * record that a stale one had in flight, so that the row and its copy both live.
 *
 * RUN:  spin -a [-D..] carry.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c && ./pan -m1000000 -E
 *   -DNCRASH=crashes -DNLEAVE=leaves -DNSTALE=stale holders -DNSTALL=stalled workers; no switch (1 1 0 1): 2.5 M states, 6 s
 *   1 0 1 1: 1.9 M, 5 s    1 1 1 0: 2.1 M, 6 s    2 0 0 0: 0.8 M, 2 s    optional: 2 0 1 0: 5.9 M    2 0 0 1: 3.4 M    2 1 0 0: 3.9 M
 *   Not modelled: stale holders that fire (cancel.pml, closing.pml); two places for the same version (the place that a fresh decision
 *   would choose is the one that an earlier record names).
 * BROKEN VARIANTS, each must fail (with the switches in test_models.py):
 *   ROWFIRST      K1: the row, then the record                    NOCLOSING     K1: closing is not read after the row's write
 *   PASSEARLY     K2: verified passes before the row is there     NOREINSERT    K2: a new holder takes "carried" for ended
 *   NOSETTLEREAD  K3: BELOW_FLOOR always means a later place      PLACEBLIND    K3: a later place without a new record
 *   DONEWINS      K4: a done record counts, whatever its token    CARRIEDWINS   K4: a carried record counts, whatever its token
 *   RESENDOLD     K4: repeated byte for byte, under its old token
 *   LEASEBLIND    L1: the carried row fires, its lease is live    LEASEDROPPED  L2: the record's lease is not put into the row
 *   LEAVEOPEN     L2: leaves without a record of what is in flight
 *   ACKOLDONLY    A1: what was carried on is not followed         CONFIRMEARLY  A2: confirmed before the record is acknowledged
 *   NACKANY       A3: a nack of an older attempt is accepted      FORKCOUNTS    the promises without "but for a fork"
 * VACUITY1: the first delivery's ack ends the row that was carried twice under its lease. VACUITY2: a carry met BELOW_FLOOR and went to
 * a later place, where the task was delivered and acked (both must fail). */
#ifndef NCRASH
#define NCRASH 1
#endif
#ifndef NLEAVE
#define NLEAVE 1
#endif
#ifndef NSTALE
#define NSTALE 0
#endif
#ifndef NSTALL
#define NSTALL 1
#endif
#define E (2+NCRASH+NLEAVE)                       /* tokens 1 .. E-1, of each partition; 0 = nothing acknowledged yet */
/* a record says: 0 nothing, 1 done, 2 / 3 carried to the next place / under a lease, 4 / 5 (home only) carried to place 2 / under a lease */
#define DONE 1
#define TO(n,r) (r < 4 -> n + 1 : 2)
#define LEASE(r) (r == 3 || r == 5)
byte row[3], vk[3], vt[3], fl[3*E]; bool rl[3];
bool ver[3];
/* memory of the holder */
byte ep[3];                                       /* its token */
bool up[3];
byte rec[3], wr[3];                               /* its record, and that record's write: 0 not yet, 1 in flight, 2 acknowledged */
byte st[3];
#define UNKNOWN 0
#define DUE 1
#define LEASED 2                                  /* carried here in flight */
#define SENT 3
#define CARRY 4                                   /* the record is being written, or the row */
#define ENDED 5                                   /* the done record is being written */
#define GONE 6                                    /* verified may pass */
byte d[3], se[2], sr[2]; bool sa[2];              /* the stale holder: its token, its record, that one is acknowledged */
byte crashes = NCRASH, leaves = NLEAVE, stales = NSTALE, stalls = NSTALL;
bool confirmed = false, forked = false;           /* ghosts */
#if defined(VACUITY1) || defined(VACUITY2)
bool fired[3];
#define FIRED fired[n] = true
#else
#define FIRED skip
#endif
#define LIVE(x) (x == 1 || x == 2)
#define ABANDONED (ver[1] && vk[1] == 0)
#define OPEN(p) (up[p] && !ver[p] && (st[p] == DUE || st[p] == LEASED || st[p] == SENT))
#define LEFT(p) (vk[p] > DONE && (ver[p] || (up[p] && wr[p] == 2 && (st[p] == CARRY || st[p] == GONE))))
#define RAM_GONE up[n] = false; st[n] = UNKNOWN; rec[n] = 0; wr[n] = 0; k = 0

inline carry(p, lease) { rec[p] = (lease -> 3 : 2); wr[p] = 0; st[p] = CARRY }
inline load(p) {
  if :: p < 2 -> if :: se[p] != 0 -> forked = true :: else fi :: else fi;
#ifdef LEASEBLIND
  st[p] = DUE
#else
  st[p] = (rl[p] -> LEASED : DUE)
#endif
}
inline write_off(x) { if :: LIVE(d[x]) -> d[x] = 3 :: else fi }
#if defined(DONEWINS) || defined(CARRIEDWINS)
#define ANYORDER
#endif
inline durable(p, e, r) {                         /* the record r of token e is acknowledged: what older tokens wrote counts no more */
  if :: e >= vt[p] -> vk[p] = r; vt[p] = e; fl[p*E+e] = 0;
#ifndef ANYORDER
        k = e; do :: k > 1 -> k--; fl[p*E+k] = 0 :: else -> break od; k = 0
#endif
     :: else fi }

#ifdef ROWFIRST
#define MAYRECORD (row[TO(n,rec[n])] == 2)
#define MAYROW true
#else
#define MAYRECORD true
#define MAYROW (wr[n] == 2)
#endif
#ifdef RESENDOLD
#define TOKEN own
#else
#define TOKEN ep[n]
#endif

proctype Holder(byte n) {
  bool again; byte k;
#ifdef RESENDOLD
  byte own = 1;
#endif
  goto start;
acquire:
  atomic {                                                               /* token LWT, THEN the settle records */
    ep[n]++; rec[n] = vk[n];
#ifdef ANYORDER
    k = 0;
#else
    k = vt[n];
#endif
#ifdef RESENDOLD
    own = (vk[n] != 0 -> vt[n] : ep[n]);
#endif
#if defined(DONEWINS)
#define BETTER (rec[n] != DONE)
#elif defined(CARRIEDWINS)
#define BETTER (fl[n*E+k] != DONE || rec[n] == 0)
#else
#define BETTER true
#endif
    do :: k < ep[n] -> if :: fl[n*E+k] != 0 && BETTER -> rec[n] = fl[n*E+k];
#ifdef RESENDOLD
                               own = k
#endif
                          :: skip fi; k++
       :: else -> break od;
    k = 0;
    if :: rec[n] == DONE -> st[n] = ENDED
       :: rec[n] > DONE -> st[n] = CARRY
       :: else fi;
    if :: n < 2 && rec[n] != 0 -> if :: se[n] != 0 && sr[n] != rec[n] -> forked = true :: else fi :: else fi;
#ifdef NOREINSERT
    if :: st[n] == CARRY -> st[n] = GONE :: else fi;
#endif
#ifdef LEASEDROPPED
    again = (st[n] == CARRY);
#endif
    up[n] = true };
start:
  do
  :: atomic { ver[n] && st[n] == GONE -> rec[n] = 0; wr[n] = 0; break }
  :: atomic { st[n] == UNKNOWN && row[n] >= 1 -> load(n) }               /* load, sweep or hint */
  :: atomic { n == 1 && st[1] == UNKNOWN && row[1] < 2 -> ver[1] = true; st[1] = GONE }   /* closed over, scanned, not seen */
  :: atomic { st[n] == DUE ->
#ifdef FORKCOUNTS
       assert(!confirmed && !LIVE(d[0]) && !LIVE(d[1]) && !LIVE(d[2]));
#else
       assert(forked || (!confirmed && !LIVE(d[0]) && !LIVE(d[1]) && !LIVE(d[2])));
#endif
       FIRED; d[n] = 1; st[n] = SENT }
  :: atomic { n < 2 && st[n] == DUE -> carry(n, false) }                 /* backlog */
  :: atomic { n < 2 && st[n] == SENT && d[n] != 1 -> write_off(n); carry(n, false) }   /* its lease ran out: retry */
  :: atomic { n < 2 && st[n] == SENT -> carry(n, true) }                 /* guard, or before leaving */
  :: atomic { n < 2 && st[n] == LEASED -> carry(n, true) }
  :: atomic { st[n] == LEASED && d[0] != 1 && d[1] != 1 -> write_off(0); write_off(1); st[n] = DUE }
  :: atomic { ((st[n] == CARRY && MAYRECORD) || st[n] == ENDED) && wr[n] == 0 -> wr[n] = 1;
       if :: TOKEN >= vt[n] -> fl[n*E+TOKEN] = rec[n] :: else fi }
  :: atomic { (st[n] == CARRY || st[n] == ENDED) && wr[n] == 1 -> wr[n] = 2; durable(n, TOKEN, rec[n]);
       if :: st[n] == ENDED -> st[n] = GONE :: else fi }
  :: atomic { n < 2 && st[n] == CARRY && MAYROW && row[TO(n,rec[n])] < 2 ->
       if :: row[TO(n,rec[n])] == 0 -> rl[TO(n,rec[n])] = (again -> false : LEASE(rec[n])) :: else fi; row[TO(n,rec[n])]++ }
  :: atomic { n < 2 && st[n] == CARRY && wr[n] == 2 && row[TO(n,rec[n])] == 2 ->  /* the row is written: read closing */
       if
       :: TO(n,rec[n]) == 2 || !ver[1] -> st[n] = GONE
#ifdef NOCLOSING
       :: else -> st[n] = GONE
#else
#ifndef NOSETTLEREAD
       :: TO(n,rec[n]) == 1 && ver[1] && vk[1] == DONE -> rec[n] = DONE; wr[n] = 0; st[n] = ENDED
       :: TO(n,rec[n]) == 1 && ver[1] && vk[1] != DONE ->
#else
       :: TO(n,rec[n]) == 1 && ver[1] ->
#endif
            rec[n] = rec[n] + 2;
#ifdef PLACEBLIND
            row[2] = 2; rl[2] = LEASE(rec[n]); st[n] = GONE
#else
            wr[n] = 0
#endif
#endif
       fi }
  :: atomic { st[n] == GONE && !ver[n] -> ver[n] = true }                /* verified follows */
#ifdef PASSEARLY
  :: atomic { n < 2 && st[n] == CARRY && wr[n] == 2 && !ver[n] -> ver[n] = true }
#endif
  :: atomic { crashes > 0 && st[n] != UNKNOWN && (!ver[n] || st[n] == CARRY) -> crashes--;
       if :: st[n] != DUE && st[n] != GONE -> write_off(0);
               if :: n > 0 -> write_off(1) :: else fi; if :: n > 1 -> write_off(2) :: else fi
          :: else fi;
       if :: n < 2 && st[n] == CARRY && wr[n] == 1 && stales > 0 -> stales--; se[n] = ep[n]; sr[n] = rec[n]
          :: skip fi;
       again = false; RAM_GONE; if :: ver[n] -> break :: else goto acquire fi }
#ifdef LEAVEOPEN
  :: atomic { leaves > 0 && !ver[n] && st[n] == SENT -> leaves--; again = false; RAM_GONE; goto acquire }
#endif
  :: atomic { leaves > 0 && !ver[n] && (st[n] == DUE || (n < 2 && st[n] == CARRY && wr[n] == 2)) ->
       leaves--; again = false; RAM_GONE; goto acquire }
  od;
  again = false }

proctype Stale(byte n) {                                                 /* ends the batch that it had begun */
  byte k;
end: do
  :: atomic { se[n] != 0 && !sa[n] -> sa[n] = true; durable(n, se[n], sr[n]) }
  :: atomic { se[n] != 0 && sa[n] && row[TO(n,sr[n])] < 2 ->
       if :: row[TO(n,sr[n])] == 0 -> rl[TO(n,sr[n])] = LEASE(sr[n]) :: else fi; row[TO(n,sr[n])]++ }
  od }

proctype Worker(byte n) {                                                /* whoever has a delivery from place n */
  byte p;
end: do
  :: atomic { n < 2 && d[n] == 1 && stalls > 0 -> stalls--; d[n] = 2 }
  :: atomic { d[n] == 3 -> d[n] = 0 }                                    /* never heard of again */
  :: atomic { n < 2 && d[n] != 0 && up[n] && st[n] == SENT -> d[n] = 0; carry(n, false) }   /* nack */
  :: atomic { n < 2 && d[n] != 0 && up[n] && st[n] != SENT -> d[n] = 0;  /* nack of an older attempt */
#ifdef NACKANY
       if :: n == 0 && up[1] && st[1] == SENT -> carry(1, false) :: else fi
#endif
     }
  :: atomic { d[n] != 0 -> p = n; goto ack }
  od;
ack: do
  :: atomic { OPEN(p) -> rec[p] = DONE; wr[p] = 0; st[p] = ENDED }
#ifdef CONFIRMEARLY
  :: atomic { (st[p] == ENDED && up[p]) || vk[p] == DONE -> confirmed = true; d[n] = 0; p = 0; goto end }
#else
  :: atomic { vk[p] == DONE && (ver[p] || (up[p] && st[p] == GONE)) -> confirmed = true; d[n] = 0; p = 0; goto end }
#endif
#ifdef ACKOLDONLY
  :: atomic { LEFT(p) -> confirmed = true; d[n] = 0; p = 0; goto end }
#else
  :: atomic { p < 2 && LEFT(p) && !(TO(p,vk[p]) == 1 && ABANDONED) -> p = TO(p,vk[p]) }
  :: atomic { n == 0 && p == 1 && ABANDONED -> p = 0 }
#endif
  :: atomic { d[n] == 3 -> d[n] = 0; p = 0; goto end }
  od }

init { atomic { row[0] = 2; ep[0] = 1; ep[1] = 1; ep[2] = 1; up[0] = true; up[1] = true; up[2] = true;
  run Holder(0); run Holder(1); run Holder(2);
#if NSTALE > 0
  run Stale(0); run Stale(1);
#endif
  run Worker(0); run Worker(1); run Worker(2) } }

active proctype Monitor() {
end: if
#ifdef VACUITY1
  :: atomic { confirmed && vk[2] == DONE && vk[0] == 3 && vk[1] == 3 && !fired[1] && !fired[2] -> assert(false) }
#elif defined(VACUITY2)
  :: atomic { confirmed && vk[2] == DONE && vk[0] == 5 && ABANDONED && fired[2] && !forked -> assert(false) }
#endif
  :: timeout -> assert(vk[0] == DONE || vk[1] == DONE || vk[2] == DONE)
  fi }
