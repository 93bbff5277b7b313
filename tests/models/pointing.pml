/* pointing.pml: who cancels a task by an id that was told before its row was written reaches it, wherever its row is written in the end.
 *
 * WHAT: one task that is recorded, and named, before it is written (an occurrence of a schedule: schedules.pml). NT tries write its row, each
 * may stop for ever after any step, or go on much later. A row that comes too late for its place is written at the next one; which one that
 * is, and when a place may be left, is places.pml: here place p + 1 follows p. A caller cancels by the id, which names place 0.
 *   row[p]     a row is durable at place p           past[p]   `verified` is beyond p: nobody reads a row there any more
 *   mark[p]    the mark of the cancel at p           fwd[p]    the mark at p that points on
 *   over[p]    a record says how the row at p ended: it was sent, or met with the mark of the cancel
 * RULES (they go on from P1-P3 of places.pml)
 *   P4 what is left points on, be there a row or not, THEN its marks are read, and taken along, THEN the row is written at the next place.
 *      (A place that is passed may be left without a row: another try may be about to write it there.)
 *   P5 who cancels goes where the places point, with or without rows, marks where that ends, THEN looks once more, THEN asks who holds it.
 * PROMISES: after CANCELLED the task is not sent; it is sent once at most.
 *
 * RUN: spin -a pointing.pml && gcc -O2 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m1000000 -E
 * BROKEN VARIANTS, each must fail (spin -a -DNAME ...):
 *   POINTLATE    P4: the place that is left points on when the row is written at the next one
 *   POINTTHERE   P4: only a place that has a row points on
 *   MARKSSTAY    P4: the marks of a place that is left are not taken along
 *   MARKSFIRST   P4: they are read before it points on
 *   ROWSONLY     P5: it is followed from rows alone
 *   LOOKONCE     P5: it is not looked at once more after the mark
 * VACUITY1 (the task is cancelled at a place that it was not named by), VACUITY2 (its mark was taken along) and VACUITY3 (the same place is
 * left by two) must fail too. */
#ifndef NT
#define NT 2
#endif
#define NP 3                                      /* places */
#define NONE 255
bool row[NP], past[NP], mark[NP], over[NP];
byte fwd[NP] = NONE;
bool sent = false, cancelled = false;
#define MAYSTOP if :: true :: goto stopped fi
#ifdef VACUITY1
bool later = false;
#endif
#ifdef VACUITY2
bool along = false;
#endif
#ifdef VACUITY3
byte leavers = 0;
#endif

/* Of a place, whoever that is. */
proctype Holder(byte p) {
end: do
  :: atomic { row[p] && !past[p] && !over[p] && !mark[p] -> assert(!cancelled); assert(!sent); sent = true; over[p] = true }
  :: atomic { row[p] && !past[p] && !over[p] && mark[p] -> over[p] = true }
  :: atomic { !past[p] && (!row[p] || over[p]) -> past[p] = true }
  od
}

proctype Try() {
  byte p = 0; bool m = false;
again:
  MAYSTOP;
  if :: past[p] :: row[p] = true fi;
  MAYSTOP;
  if :: !past[p] -> goto stopped                  /* its holder reads it, or has */
     :: else
  fi;
  MAYSTOP;
  if :: over[p] || p == NP - 1 -> goto stopped :: else fi;
#ifdef VACUITY3
  leavers = leavers + (p == 0);
#endif
  MAYSTOP;
#ifdef POINTLATE
  row[p + 1] = true;
  MAYSTOP;
#endif
#ifdef MARKSFIRST
  m = mark[p];
  MAYSTOP;
#endif
#ifdef POINTTHERE
  if :: row[p] -> fwd[p] = p + 1 :: else fi;
#else
  fwd[p] = p + 1;
#endif
  MAYSTOP;
#ifndef MARKSFIRST
  m = mark[p];
#endif
#ifndef MARKSSTAY
  if
  :: m -> MAYSTOP; mark[p + 1] = true;
#ifdef VACUITY2
     along = true;
#endif
  :: else
  fi;
#endif
  m = false; p++;
  goto again;
stopped: skip
}

/* What is found nowhere is not cancelled. */
proctype Cancel() {
  byte q = 0; bool there = false;
look:
  do
#ifdef ROWSONLY
  :: atomic { row[q] && fwd[q] != NONE -> there = true; q = fwd[q] }
  :: atomic { !(row[q] && fwd[q] != NONE) -> there = there || row[q]; break }
#else
  :: atomic { fwd[q] != NONE -> there = there || row[q]; q = fwd[q] }
  :: atomic { fwd[q] == NONE -> there = there || row[q]; break }
#endif
  od;
  if :: !there || over[q] -> goto stopped :: else fi;
  mark[q] = true;
#ifndef LOOKONCE
#ifdef ROWSONLY
  if :: row[q] && fwd[q] != NONE -> goto look :: else fi;
#else
  if :: fwd[q] != NONE -> goto look :: else fi;
#endif
#endif
  atomic {
    if :: sent && over[q] -> goto stopped
       :: else -> cancelled = true;
#ifdef VACUITY1
          if :: q != 0 -> later = true :: else fi
#endif
    fi };
stopped: skip
}

init { atomic { byte k = 0;
  run Cancel();
  do :: k < NP -> run Holder(k); k++ :: else -> break od; k = 0;
  do :: k < NT -> run Try(); k++ :: else -> break od } }

active proctype Monitor() {
end: if
#ifdef VACUITY1
  :: atomic { later -> assert(false) }
#endif
#ifdef VACUITY2
  :: atomic { along && cancelled -> assert(false) }
#endif
#ifdef VACUITY3
  :: atomic { leavers == 2 -> assert(false) }
#endif
  :: false
  fi
}
