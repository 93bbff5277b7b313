/* ties.pml: a cancel reaches every row of its task, also those that a repeated call writes into other buckets.
 *
 * WHAT: one task whose call was tried NT + 1 times. The first try's row is at the task's instant, the anchor, in a bucket that is over
 * by the time of the others; each later try writes its row in a bucket of its own. Nobody knows of a row but by the marks that lead to
 * it. A caller cancels by the id of any try that was answered. Tries may stop for ever after
 * any step. Within one bucket a mark reaches its holder before anything is sent: that is cancel.pml, and one step here.
 *   row[k]     try k has written its row             (place 0 is the anchor)
 *   end[k]     the cancel's mark on place k: nothing is sent from there afterwards
 *   lead[k]    the anchor's mark that names place k; the mark on place k that names the anchor is written in the same step
 * RULES
 *   T1 a try that is late writes both marks, THEN reads the anchor; if that is ended it ends its own place; THEN it writes its row.
 *   T2 a cancel marks the place of its id, THEN reads it; from a place that is not the anchor it goes to the anchor, marks that,
 *      THEN reads it; it marks all that the anchor names; THEN it answers.
 *   T3 where the task lives on elsewhere, its home says that it was ended there: it is read by T1 like the anchor's mark.
 * PROMISE: after CANCELLED no row of the task is sent, from any place, whenever it is written.
 *
 * RUN (three late tries: some 100 K states, 1 s): spin -a ties.pml && gcc -O2 -w -DSAFETY -o pan pan.c && ./pan -m1000000
 * BROKEN VARIANTS, each must fail (spin -a -DNAME ...):
 *   NOTIE       T1: a late row is written without a word at the anchor
 *   TIELATE     T1: the marks are written after the row
 *   LOOKFIRST   T1: the anchor is read before the marks are written
 *   NOLOOK      T1: the anchor is not read
 *   NOBACK      T2: from a late place the cancel does not go to the anchor
 *   LEADSFIRST  T2: what the anchor names is read before the anchor is marked
 *   NOTSAID     T3: the home of a task that was carried on says nothing
 * VACUITY must fail too: a row that is written after CANCELLED was said is reached. */
#ifndef NT
#define NT 2
#endif
bool row[NT+1], end[NT+1], lead[NT+1], told[NT+1];
bool carried = false;                             /* the first row was carried on: it is sent from where it lives now */
bool endaway = false, said = false;               /* the mark there; the home's word of it */
bool cancelled = false, after = false;

#define ANCHORENDED (end[0] || said)

inline look(k) { if :: ANCHORENDED -> end[k] = true :: else fi }

proctype First() {
  row[0] = true;
  told[0] = true;
  if :: carried = true :: skip fi
}

proctype Late(byte k) {
#ifdef LOOKFIRST
  atomic { look(k) };
#endif
#if !defined(NOTIE) && !defined(TIELATE)
  lead[k] = true;
#endif
#if !defined(NOLOOK) && !defined(LOOKFIRST) && !defined(TIELATE)
  if :: true :: goto stopped fi;
  atomic { look(k) };
#endif
  if :: true :: goto stopped fi;
  atomic { row[k] = true; if :: cancelled -> after = true :: else fi };
#ifdef TIELATE
  if :: true :: goto stopped fi;
  lead[k] = true;
  atomic { look(k) };
#endif
  told[k] = true;
stopped: skip
}

/* Sends what may be sent, from any place, at any time. */
proctype Holders() {
  do
  :: atomic { row[0] && !carried && !end[0] -> assert(!cancelled) }
  :: atomic { row[0] && carried && !endaway && !end[0] -> assert(!cancelled) }
  :: atomic { row[1] && !end[1] -> assert(!cancelled) }
  :: atomic { row[NT] && !end[NT] -> assert(!cancelled) }
  od
}

proctype Cancel() {
  byte k = 0, n = 1; bool known[NT+1];
  if :: told[0] -> k = 0 :: told[1] -> k = 1 :: told[NT] -> k = NT fi;
  if
  :: k > 0 -> end[k] = true
  :: else fi;
#ifdef NOBACK
  if :: k > 0 -> goto answer :: else fi;
#endif
#ifdef LEADSFIRST
  n = 1; do :: n <= NT -> known[n] = lead[n]; n++ :: else -> break od;
#endif
  if
  :: atomic { k == 0 && carried -> endaway = true };
#ifndef NOTSAID
     said = true
#endif
  :: atomic { k > 0 || !carried -> end[0] = true; if :: carried -> endaway = true :: else fi }
  fi;
#ifndef LEADSFIRST
  n = 1; do :: n <= NT -> known[n] = lead[n]; n++ :: else -> break od;
#endif
  n = 1; do :: n <= NT -> if :: known[n] -> end[n] = true :: else fi; n++ :: else -> break od;
answer:
  cancelled = true
}

init { atomic { byte k = 1; run First(); do :: k <= NT -> run Late(k); k++ :: else -> break od; run Holders(); run Cancel() } }

#ifdef VACUITY
active proctype Probe() { atomic { after -> assert(false) } }
#endif
