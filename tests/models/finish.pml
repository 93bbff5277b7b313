/* finish.pml: when may a whole bucket be called finished?
 *
 * WHAT: a bucket with K = 2 shards (shard 0 is always known, shard 1 comes into use late), two inserters, an instance that opens shard 1's
 * control row, and two finishers (any instance may finish; either may die anywhere). What happens inside one shard is closing.pml's matter;
 * here a closed shard is scanned and fired in one go.
 *   rows, cat, flag   plain QUORUM writes: 0 absent, 1 in flight (a read may see it or not), 2 acknowledged (every later read sees it)
 *                     cat = the catalogue says "shard 1 is in use"; flag = the catalogue says "this bucket is being finished"
 *   ctl               control row per shard, LWT only: 0 absent, 1 open, 2 closing = end
 * RULES
 *   F1 whoever uses a shard first (a row or a control row) quorum-writes the catalogue before.
 *   F2 insert: row, THEN control row; no control row: THEN the flag. Set: the bucket is closed (write again elsewhere); not set: open, OK.
 *   F3 finish: write the flag, THEN read the catalogue, THEN close every shard that it names (created closed if absent), THEN scan each,
 *      and only then is the bucket finished. Rows and control rows may be deleted after that; the flag stays.
 *   F4 whoever opens a control row: catalogue, THEN flag (set: do not), THEN LWT IF NOT EXISTS.
 *      Not covered by a read: an opener that sleeps between its flag read and its LWT longer than finished control rows are kept (24 h).
 * PROMISE: once the bucket is finished, every insert acknowledged in it has been fired, before and after.
 *
 * RUN (11 M states, 0.7 GB, 10 s):  spin -a finish.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000 -E
 * BROKEN VARIANTS, each must fail:
 *   FINISHEMPTY  a shard without a control row is skipped       COUNTFIRST  the catalogue is read before the flag is written
 *   (FINISHEMPTY with -DNOOPENER passes: the flag alone stops a late inserter, the closed row stops a late opener)
 *   FLAGFIRST    F2: the flag is read before the row is written OPENFOREVER F2: no control row always means open
 *   NOANNOUNCE   F1: shard 1 is used without the catalogue      OPENBLIND   F4: opened without catalogue and flag
 * VACUITY must fail too: finished and forgotten, and both shards had an acknowledged row. */
byte rows[4];                              /* [inserter*2 + shard] */
byte cat = 0, flag = 0, ctl[2];
bool fired[4], acked[2], finished = false, forgotten = false; byte at[2];
#define SEEN(x) (x >= 1)
#define MISSED(x) (x < 2)

inline announce(s) { if :: s == 1 && cat < 2 -> atomic { if :: cat == 0 -> cat = 1 :: else fi }; cat = 2 :: else fi }

proctype Inserter(byte i) {
  byte s, c; bool f;
  if :: s = 0 :: s = 1 fi;
#ifndef NOANNOUNCE
  announce(s);
#endif
#ifdef FLAGFIRST
  if :: SEEN(flag) -> f = true :: MISSED(flag) -> f = false fi;
#endif
  rows[i*2+s] = 1; rows[i*2+s] = 2;
  c = ctl[s];
#ifndef FLAGFIRST
  if :: SEEN(flag) -> f = true :: MISSED(flag) -> f = false fi;
#endif
#ifdef OPENFOREVER
  f = false;
#endif
  atomic { if :: c == 1 || (c == 0 && !f) -> acked[i] = true; at[i] = s
              :: else                      /* closed: written again in a later bucket */
           fi; c = 0; f = false; s = 0 } }

proctype Opener() {                        /* an instance takes shard 1, then dies */
#ifndef OPENBLIND
  announce(1);
  if :: SEEN(flag) -> goto out :: MISSED(flag) -> skip fi;
#endif
  atomic { if :: ctl[1] == 0 && !forgotten -> ctl[1] = 1 :: else fi };
out: skip }

#define MAYDIE if :: skip :: goto out fi
inline close(s) {
#ifdef FINISHEMPTY
  atomic { if :: ctl[s] == 1 -> ctl[s] = 2 :: else fi };
#else
  atomic { if :: ctl[s] < 2 -> ctl[s] = 2 :: else fi };
#endif
  MAYDIE;
  i = 0; do :: i < 2 -> atomic { if :: SEEN(rows[i*2+s]) -> fired[i*2+s] = true :: MISSED(rows[i*2+s]) -> skip fi; i++ } :: else -> break od }

proctype Finisher() {
  byte i; bool two;
#ifdef COUNTFIRST
  if :: SEEN(cat) -> two = true :: MISSED(cat) -> two = false fi;
#endif
  atomic { if :: flag == 0 -> flag = 1 :: else fi };
  MAYDIE; flag = 2;
#ifndef COUNTFIRST
  if :: SEEN(cat) -> two = true :: MISSED(cat) -> two = false fi;
#endif
  close(0);
  if :: two -> close(1) :: else fi;
  finished = true;
  MAYDIE;
  atomic { forgotten = true; ctl[0] = 0; ctl[1] = 0 };                /* a day later: rows and control rows are deleted */
  atomic { rows[0] = 0; rows[1] = 0; rows[2] = 0; rows[3] = 0 };
out: atomic { i = 0; two = false } }

init { atomic { run Inserter(0); run Inserter(1); 
#ifndef NOOPENER
  run Opener();
#endif
  run Finisher(); run Finisher() } }

active proctype Monitor() {
end: if
#ifdef VACUITY
  :: atomic { forgotten && acked[0] && acked[1] && at[0] == 0 && at[1] == 1 -> assert(false) }
#endif
  :: atomic { finished && ((acked[0] && !fired[at[0]]) || (acked[1] && !fired[2+at[1]])) -> assert(false) }
  fi }
