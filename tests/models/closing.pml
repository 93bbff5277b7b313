/* closing.pml: inserting, closing, settling and taking over one partition (bucket, shard).
 *
 * WHAT: D slots of one partition (slot D stands for "the next bucket"), NI inserters with one task each, NO holders one after the other
 * (or at once: an old one does not notice that it is old). No clock: a holder may close any slot at any moment.
 *   rows, setl   plain QUORUM writes: 0 absent, 1 in flight (a read may see it or not), 2 acknowledged (every later read sees it)
 *                rows = (task, slot); setl = its settle record ("this row has ended"), additive, written by holders
 *   epoch (= fencing token), closing, verified    control row, LWT only; a QUORUM read during an LWT gives old or new; a crash leaves the
 *                LWT undecided until the Resolver finishes or drops it
 * RULES
 *   I1 quorum-write the row, THEN read `closing`. slot >= closing: OK, and a hint.  Below: the holder of the epoch just read adopts it
 *      (slot >= its floor), or write it again at a slot >= closing and repeat.
 *   H1 LWT raises `closing`, THEN scan [old closing, new closing). `verified` follows on its own: up to closing, never past an open row.
 *   H2 a row that ended gets a settle record; verified passes it when that is acknowledged. The floor rises in the step that decides to move
 *      `verified`, before the LWT is sent.
 *   H3 take over: LWT of the token, THEN read the settle records, THEN load [verified, end), and only then fire. A settled row stays in memory
 *      (its id only) until the floor has passed it: hints, adoptions and scans meet it again.
 * PROMISES  (S1) an acknowledged insert whose slot is below `verified` has been fired.
 *           (S2) a row whose settle record was acknowledged before a holder's token LWT committed is never fired by that holder.
 *
 * RUN (default D=2 NI=1 NO=2: 3.8 M states, 350 MB, 4 s; larger ones, such as NO=3 or NI=2, were never run to the end):
 *   spin -a closing.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c && ./pan -m1000000 -E
 *   -DD=slots -DNI=inserters -DNO=holders; -DNOHINT without hints (smaller)
 * BROKEN VARIANTS, each must fail:
 *   NOCHECK     inserter does not read closing                READFIRST   reads closing before its write
 *   SCANFIRST   scan before the LWT                           READONE     scan reads one replica
 *   NOFENCE     mark not conditional on the token             ASYNCCOMMIT goes on before the LWT's commit reached a quorum
 *   ADOPTRACE   the floor is never raised                     FLOORLATE   the floor is raised after the LWT
 *   SETTLEFIRST settle records are read before the token LWT  HINTBLIND   a hint or adoption is taken without asking memory
 *   FIREEARLY   hinted rows are fired before the settle records are read
 * VACUITY must fail too: two holders, a row fired by the first, skipped by the second, verified at the end. */
#ifndef D
#define D 2
#endif
#ifndef NI
#define NI 1
#endif
#ifndef NO
#define NO 2
#endif
#define ROW(i,d)  rows[(i)*(D+1)+(d)]
#define SET(i,d)  setl[(i)*D+(d)]
#define RAM(k,i,d) ram[((k)*NI+(i))*D+(d)]
byte rows[NI*(D+1)], setl[NI*D], setep[NI*D];   /* setep (ghost): the committed epoch when the settle record was acknowledged */
bool fired[NI*D];                               /* ghost */
bool acked[NI]; byte pos[NI];
byte ram[NO*NI*D];                              /* memory of holder k: 0 unknown, 1 due, 2 ended, 3 settled */
byte o_e[NO], o_low[NO]; bool o_up[NO];         /* its epoch, its floor, whether it answers */
byte epoch = 0, verified = 0, closing = 0;      /* committed control row */
bool pend = false, orphan = false, decided = false; byte p_e, p_v, p_c;   /* LWT in flight */
#define COMMIT epoch = p_e; verified = p_v; closing = p_c; pend = false; p_e = 0; p_v = 0; p_c = 0

active proctype Resolver() {                    /* Paxos finishes or drops an orphaned proposal */
end: do
  :: atomic { orphan -> orphan = false; COMMIT }
  :: atomic { orphan -> orphan = false; pend = false }
#ifdef ASYNCCOMMIT
  :: atomic { decided -> decided = false; COMMIT }
#endif
  od }

#ifdef HINTBLIND
#define TAKE(k,i,d) RAM(k,i,d) = 1
#else
#define TAKE(k,i,d) RAM(k,i,d) = (RAM(k,i,d) == 0 -> 1 : RAM(k,i,d))
#endif
proctype Inserter(byte i) {
  byte d, c, e, k; bool ok;
  atomic { if :: d = 0 :: d = 1 fi };
again:
#ifdef READFIRST
  if :: c = closing :: pend -> c = p_c fi;
#endif
  ROW(i,d) = 1;
  atomic { ROW(i,d) = 2; if :: d == D -> goto ack :: else fi };
#if defined(NOCHECK)
  c = 0;
#elif !defined(READFIRST)
  if :: atomic { c = closing; e = epoch } :: atomic { pend -> c = p_c; e = p_e } fi;
#endif
  atomic { if
  :: d < c ->                                   /* adopt: asks the holder of the epoch just read */
     ok = false; k = 0;
     do :: k < NO -> if :: o_up[k] && o_e[k] == e && d >= o_low[k] -> TAKE(k,i,d); ok = true :: else fi; k++
        :: else -> break od;
     k = 0; if :: ok -> skip :: d = c; c = 0; e = 0; ok = false; goto again :: d = D; c = 0; e = 0; ok = false; goto again fi
  :: else fi; c = 0; e = 0; ok = false };
ack:
  atomic { acked[i] = true; pos[i] = d };
#ifndef NOHINT
  if :: d < D ->                                /* the hint: lost, or late, and then at anybody */
     if :: atomic { k = 0; do :: k < NO - 1 -> k++ :: break od; o_up[k] && d >= o_low[k] -> TAKE(k,i,d); k = 0 } :: skip fi
     :: else fi
#endif
}

#ifdef NOFENCE
#define COND true
#else
#define COND (epoch == my_e)
#endif
inline lwt(nv, ncl) {
  atomic { !pend -> if :: COND -> pend = true; p_e = my_e; p_v = nv; p_c = ncl :: else -> goto dead fi };
#ifdef ASYNCCOMMIT
  decided = true                                /* goes on before the commit reaches a quorum */
#else
  if :: atomic { COMMIT } :: atomic { orphan = true; goto dead } fi     /* (crash or timeout: outcome unknown) */
#endif
}
inline scan(lo, hi) {                           /* one step per row read */
  d = lo;
  do :: d < hi -> i = 0;
        do :: i < NI -> atomic {
              if :: ROW(i,d) >= 1 -> RAM(me,i,d) = (RAM(me,i,d) == 0 -> 1 : RAM(me,i,d))
#ifdef READONE
                 :: skip
#else
                 :: ROW(i,d) < 2 -> skip
#endif
              fi; i++ }
           :: else -> break od; d++
     :: else -> break od; d = 0; i = 0 }
inline read_settled() {
  atomic { i = 0; do :: i < NI -> d = 0;
        do :: d < D -> if :: SET(i,d) >= 1 -> RAM(me,i,d) = 3 :: SET(i,d) < 2 -> skip fi; d++ :: else -> break od; i++
     :: else -> break od; d = 0; i = 0 } }
inline fire() { atomic { ok = false; i = 0;
     do :: i < NI && RAM(me,i,0) == 1 -> d = 0; break :: i < NI && RAM(me,i,1) == 1 -> d = 1; break
        :: i < NI - 1 -> i++ od;
     assert(!(SET(i,d) == 2 && my_e > setep[i*D+d]));                   /* S2 */
     fired[i*D+d] = true; RAM(me,i,d) = 2; i = 0; d = 0 } }
#if NI == 1
#define ANY(x) (RAM(me,0,0) == x || RAM(me,0,1) == x)
#define OPEN(v) (RAM(me,0,v) == 1 || RAM(me,0,v) == 2)
#else
#define ANY(x) (RAM(me,0,0) == x || RAM(me,0,1) == x || RAM(me,1,0) == x || RAM(me,1,1) == x)
#define OPEN(v) (RAM(me,0,v) == 1 || RAM(me,0,v) == 2 || RAM(me,1,v) == 1 || RAM(me,1,v) == 2)
#endif

proctype Holder(byte me) {
  byte my_e, my_v, my_c, nc, i, d; bool ok;
  atomic { !pend -> my_e = epoch; if :: verified >= D -> goto dead :: else fi };   /* SERIAL read */
#ifdef SETTLEFIRST
  read_settled();
#endif
  atomic { !pend -> if :: epoch == my_e -> pend = true; p_e = my_e + 1; p_v = verified; p_c = closing; my_v = verified; my_c = closing
                       :: else -> goto dead fi };
  if :: atomic { my_e = p_e; COMMIT; o_e[me] = my_e; o_low[me] = my_v; o_up[me] = true } :: atomic { orphan = true; goto dead } fi;
#ifdef FIREEARLY
  if :: ANY(1) -> fire() :: skip fi;
#endif
#ifndef SETTLEFIRST
  read_settled();
#endif
  scan(my_v, D);
  do
  :: atomic { ANY(1) -> fire() }
  :: atomic { ANY(2) ->                         /* settle records for everything that ended: sent ... */
       i = 0; do :: i < NI -> d = 0; do :: d < D -> if :: RAM(me,i,d) == 2 && SET(i,d) == 0 -> SET(i,d) = 1 :: else fi; d++ :: else -> break od; i++
                 :: else -> break od; i = 0; d = 0 };
     atomic {                                   /* ... and acknowledged (nothing is fired in between: fewer states) */
       i = 0; do :: i < NI -> d = 0; do :: d < D -> if :: RAM(me,i,d) == 2 -> RAM(me,i,d) = 3;
                                                          if :: SET(i,d) < 2 -> SET(i,d) = 2; setep[i*D+d] = epoch :: else fi
                                                       :: else fi; d++ :: else -> break od; i++
                 :: else -> break od; i = 0; d = 0 }
  :: atomic { my_c < D -> nc = my_c + 1 };      /* close, without moving verified */
#ifdef SCANFIRST
     scan(my_c, nc); lwt(my_v, nc);
#else
     lwt(my_v, nc); scan(my_c, nc);
#endif
     atomic { my_c = nc; nc = 0 }
  :: atomic { my_v < my_c && !OPEN(my_v) -> nc = my_v + 1;              /* verified follows */
#if !defined(ADOPTRACE) && !defined(FLOORLATE)
       o_low[me] = nc
#endif
     };
     lwt(nc, my_c);
     atomic { my_v = nc; nc = 0;
#ifdef FLOORLATE
       o_low[me] = my_v
#endif
     }
  :: my_v >= D -> break
  :: goto dead                                  /* kill -9 */
  od;
dead: atomic { o_up[me] = false; o_low[me] = 0; i = 0;
  do :: i < NI -> d = 0; do :: d < D -> RAM(me,i,d) = 0; d++ :: else -> break od; i++ :: else -> break od; i = 0; d = 0; my_e = 0; my_v = 0; my_c = 0; nc = 0 } }

init { atomic { byte k = 0;
  do :: k < NI -> run Inserter(k); k++ :: else -> break od; k = 0;
  do :: k < NO -> run Holder(k); k++ :: else -> break od } }

#define S1(i) (!(acked[i] && pos[i] < D && pos[i] < verified) || fired[(i)*D+pos[i]])
active proctype Monitor() {
end: if
#ifdef VACUITY
  :: atomic { verified == D && acked[0] && pos[0] == 1 && epoch == 2 && setep[1] == 1 && SET(0,1) == 2 -> assert(false) }
#endif
  :: atomic { acked[0] && pos[0] < D && pos[0] < verified && !fired[pos[0]] -> assert(false) }
#if NI > 1
  :: atomic { acked[1] && pos[1] < D && pos[1] < verified && !fired[D+pos[1]] -> assert(false) }
#endif
  fi }
