/* tied_moves.pml: a move takes along every row of its task, also those that a repeated call writes into other buckets.
 *
 * WHAT: as in ties.pml, one task whose call was tried NT + 1 times: the first try's row is at the task's instant, the anchor, in a bucket
 * that is over by the time of the others; each later try writes its row in a bucket of its own. The first row may fail and be carried on.
 * A caller moves the task by the id of any try that was answered (NM calls at a time). Tries and movers may stop for ever after any step.
 *   row[k]     there is a row at place k            (place 0 is the anchor, 1 .. NT are the late tries', C is where the first was carried to)
 *   mark[k]    MOVED on place k: who takes the bucket over reads it before he sends anything
 *   sus[k]     the holder of place k was asked, or has read the mark: a row there fires only after `moves` was read
 *   lead[k]    the anchor's mark that names place k; the mark on place k that names the anchor is written in the same step
 *   moves      ms, g, src: serial, one step each (the rest of it is moves.pml; so is one place with its marks, pages and answers)
 * RULES
 *   T1 a try that is late writes both marks, THEN reads the anchor; if that is marked as moved it marks its own place, THEN tells the holder of
 *      that, who waits; no answer: the row is not written. THEN it writes its row.
 *   T4 a move marks its source, THEN asks the holder there, THEN reads the marks there; so it does with the home of its id and with every
 *      place that the marks name, and with the place that the row went to from there; THEN it decides. A row that is with a worker or has
 *      ended there, a holder that does not answer, or a row that has just been carried on keeps the task where it is.
 *   H2 whoever meets MOVING but its mover says FAILED; a row that waits goes on then, and is over where `moves` says MOVED.
 * PROMISES: a task that has moved was sent from none of its old places, and is sent from none of them; at rest it was sent (nothing is lost).
 *
 * RUN:  spin -a [-D..] tied_moves.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000 -E
 *   (no switch: two late tries, one move) 1.4 M states, 2 s      -DNT=1 -DNM=2 (two moves) 3.7 M states, 4 s
 * BROKEN VARIANTS, each must fail (spin -a -DNAME ...):
 *   NOTIE        T1: a late row is written without a word at the anchor
 *   TIELATE      T1: the marks are written after the row
 *   LOOKFIRST    T1: the anchor is read before the marks are written
 *   NOLOOK       T1: the anchor is not read
 *   NOTELL       T1: the holder of the new place is not told, the mark is there
 *   TELLONLY     T1: the holder of the new place is told, and there is no mark
 *   TELLLATE     T1: the holder of the new place is told when the row is there
 *   SOURCEONLY   T4: the other rows are not looked for
 *   NOBACK       T4: from a late place the move does not go to the anchor
 *   NOHOME       T4: from where the first row was carried to the move does not go to its home
 *   NOFOLLOW     T4: where the row went to from a place that the marks name is not asked
 *   LEADSFIRST   T4: what a place names is read before it is marked
 *   COPYUNASKED  T4: what the marks name is marked, and its holder not asked
 *   COPYUNMARKED T4: what the marks name is asked about, and not marked
 *   COPYBUSY     T4: a copy that is with a worker keeps nothing
 *   SILENTFREE   T4: of a copy whose holder does not answer it is said that it may leave
 *   DECIDEFIRST  T4: decides, then sees to the other rows
 *   FAILEDOVER   H2: a row that waits is over when the move has failed
 * VACUITY1 and VACUITY2 must fail too: a row that was written when the task had moved is over; a copy that is with a worker keeps the task. */
#ifndef NT
#define NT 2
#endif
#ifndef NM
#define NM 1
#endif
#define C (NT+1)
bool row[NT+2], mark[NT+2], sus[NT+2], sent[NT+2], lead[NT+2], told[NT+2];
bool carried = false;                             /* the first row was sent, failed, and lives at C now */
byte ms = 0, g = 0, src = 0;
#define NONE 0
#define MOVING 1
#define MOVED 2
#define FAILED 3
bool target = false, arrived = false;             /* the row at the new instant; it was sent */
#define LIVE(p) (row[p] && !sent[p] && !(p == 0 && carried))
#define AT(p) (p == 0 && carried -> C : p)
#define MAYSTOP if :: true :: goto stopped fi
#if defined(VACUITY1) || defined(VACUITY2)
bool after = false, kept = false;
#define WRITTEN(k) if :: ms == MOVED -> after = true :: else fi
#define KEPT kept = true
#else
#define WRITTEN(k) skip
#define KEPT skip
#endif

proctype First() {
  row[0] = true;
  told[0] = true
}

proctype Late(byte k) {
  bool moved = false;
#ifdef LOOKFIRST
  moved = mark[0];
#endif
#if !defined(NOTIE) && !defined(TIELATE)
  lead[k] = true;
#endif
  MAYSTOP;
#if !defined(NOLOOK) && !defined(LOOKFIRST) && !defined(TIELATE)
  moved = mark[0];
#endif
#ifdef TELLLATE
  if :: moved -> mark[k] = true :: else fi;
  row[k] = true;
  if :: moved -> sus[k] = true :: else fi;
#else
  if
  :: moved ->
#ifndef TELLONLY
     mark[k] = true;
     MAYSTOP;
#endif
#ifndef NOTELL
     if :: sus[k] = true :: goto stopped fi       /* or its holder does not answer */
#endif
  :: else
  fi;
  MAYSTOP;
  atomic { row[k] = true; WRITTEN(k) };
#endif
#ifdef TIELATE
  MAYSTOP;
  lead[k] = true;
  moved = mark[0];
  if :: moved -> mark[k] = true; sus[k] = true :: else fi;
#endif
  told[k] = true;
stopped: skip
}

/* One of each place; the next one has read the marks. */
proctype Holder(byte p) {
  do
  :: atomic { sus[p] != mark[p] -> sus[p] = mark[p] }
  :: atomic { LIVE(p) && !sus[p] -> assert(ms != MOVED); sent[p] = true }
  :: atomic { LIVE(p) && !sus[p] && p == 0 -> assert(ms != MOVED); carried = true; row[C] = true }
  :: atomic { LIVE(p) && sus[p] ->                /* serial read */
       if :: ms == MOVING -> ms = FAILED
          :: ms == MOVED -> row[p] = false
#ifdef FAILEDOVER
          :: ms == FAILED -> row[p] = false
          :: ms == NONE -> sus[p] = false
#else
          :: ms == NONE || ms == FAILED -> sus[p] = false
#endif
       fi }
  od
}

proctype Target() { atomic { target && ms == MOVED -> arrived = true } }

#define READ(p) if :: p == 0 -> n = 1; do :: n <= NT -> know[n] = know[n] || lead[n]; n++ :: else -> break od; n = 0 :: else -> know[0] = true fi
#ifdef SILENTFREE
#define SILENT(s) (q == s -> false : true)
#else
#define SILENT(s) false
#endif
#ifdef COPYBUSY
#define BUSY(s) (q == s -> false : true)
#else
#define BUSY(s) false
#endif
inline ask(s) {                                   /* place q; s: the source */
  atomic { if :: sent[q] -> ok = ok && BUSY(s); if :: q != s -> KEPT :: else fi
              :: q == 0 && carried -> ok = false
              :: !sent[q] && !(q == 0 && carried) -> sus[q] = true
              :: ok = ok && SILENT(s) fi }
}

inline copies() {
  do
  :: ok ->
     d_step { p = 0; do :: p <= NT && !(know[p] && !met[p]) -> p++ :: else -> break od };
     if :: p > NT -> break :: else fi;
     met[p] = true;
#ifdef LEADSFIRST
     d_step { READ(p) };
#endif
#ifndef COPYUNMARKED
     mark[p] = true;
     MAYSTOP;
#endif
     d_step { q = AT(p);
#ifndef LEADSFIRST
              READ(p)
#endif
     };
#ifdef NOFOLLOW
     q = p;
     if :: p == 0 && carried -> q = s :: else fi;
#endif
     if
     :: q != s ->
#ifndef COPYUNMARKED
        if :: q != p -> mark[q] = true; MAYSTOP :: else fi;
#endif
#ifndef COPYUNASKED
        ask(s)
#endif
     :: else
     fi
  :: else -> break
  od
}

proctype Mover() {
  byte k = 0, s = 0, p = 0, q = 0, n = 0, mine = 0; bool know[NT+2], met[NT+2], ok = true;
  if :: told[0] -> k = 0 :: told[1] -> k = 1 :: told[NT] -> k = NT fi;
  atomic { if :: ms == MOVING -> ms = FAILED :: else fi;
           if :: ms == MOVED -> goto stopped :: ms == NONE -> s = AT(k) :: ms == FAILED -> s = src fi };
  atomic { if :: ms == MOVING || ms == MOVED -> goto stopped :: else -> ms = MOVING; g++; mine = g; src = s fi };
  MAYSTOP;
  target = true;
  MAYSTOP;
  met[s] = true;
#ifdef LEADSFIRST
  if :: s <= NT -> d_step { READ(s) } :: else fi;
#endif
  mark[s] = true;
  MAYSTOP;
  q = s;
  ask(s);
#ifndef LEADSFIRST
  if :: s <= NT -> d_step { READ(s) } :: else fi;
#endif
#ifdef NOHOME
  know[k] = (s != C);
#else
  know[k] = true;
#endif
#ifdef NOBACK
  if :: k > 0 -> know[0] = false :: else fi;
#endif
#if !defined(SOURCEONLY) && !defined(DECIDEFIRST)
  copies();
#endif
  atomic { if :: ms == MOVING && g == mine -> ms = (ok -> MOVED : FAILED);
                 n = 0; do :: n <= C -> assert(ms != MOVED || !sent[n]); n++ :: else -> break od
              :: else fi };
#ifdef DECIDEFIRST
  copies();
#endif
stopped: skip
}

init { atomic { byte k = 0;
  run First(); run Target(); run Mover();
#if NM > 1
  run Mover();
#endif
  do :: k <= C -> run Holder(k); k++ :: else -> break od;
  k = 1; do :: k <= NT -> run Late(k); k++ :: else -> break od } }

active proctype Monitor() {
end: if
#ifdef VACUITY1
  :: atomic { after && arrived && (row[1] || row[2]) -> assert(false) }
#endif
#ifdef VACUITY2
  :: atomic { kept && ms == FAILED -> assert(false) }
#endif
  :: timeout -> assert(arrived || sent[0] || sent[1] || sent[NT] || sent[C])
  fi
}
