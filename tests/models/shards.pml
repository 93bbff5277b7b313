/* shards.pml: the key shard of an ordering key goes from one instance to another, while tasks of the key are stored, wait and are in hand.
 *
 * WHAT: two tasks of one key, task i in partition i, which two callers store by whatever instance; task 1 has its place behind task 0. Partitions
 *   are held as in closing.pml, and what becomes of a row in one of them is the matter of carry.pml. Here two instances hold them, one keeps the
 *   shard, and where it is placed changes.
 *   cat, row, over   durable: the catalogue names the partition; the row; it has ended      closed   durable: `closing` has passed the row
 *   left, owed       durable: with a worker when its partition was let go of (in the row); so, and over (in the register)
 *   note             durable: task 0 is dead, and halts the key
 *   hand             a worker has it             old    one has it from before a crash: it was given up      acked   a worker is done with it
 *   per instance: known, loaded, scanned (partitions), mine (in hand), said (ended, not durable yet), owes, halts
 *     looked, met    a look at the catalogue that began since has ended: since the register and each partition was taken; since the row was met
 * RULES
 *   O1 who sends keeps the shard by its register, and holds and has read each partition that the catalogue names: those up to the row's, for
 *      what comes before it, and those behind it, for what is in hand. The look began after the register was taken, and after the row was met.
 *   O3, O4 `closing`, THEN the scan, THEN the start; a row that is stored below `closing` is offered to the holder, THEN OK.
 *   O6 what has ended is durable, THEN what is in hand is in the row, THEN the partition is free. All partitions are free, THEN the register is,
 *      with what is in hand of tasks that are over: nothing starts before that is settled.
 *   O7 the key is free when the delivery in hand was settled, whoever has ended the task, and however: a dead letter frees it no sooner.
 *   F2 the notes of dead letters are read with the look. It began after the register was taken, and after each partition was, for its holder
 *      before may have written one.
 * PROMISES, at a start: nothing else of the key is in hand; where task 0 was stored before task 1 was called for, it has ended before task 1
 *   starts; nothing starts while the key is halted. At rest both have ended, or the key is halted.
 *
 * RUN: check.sh shards.pml [-D..]   NMOVE=1, NCRASH=1, NFAIL=0; STORED: both tasks are, from the beginning; ANNOUNCED: the catalogue names
 *   partition 0 before its task is stored; HALT: task 0 may die, and a person skips it
 * BROKEN VARIANTS, each must fail:
 *   PARTBLIND  O1: partitions of others are not asked for        HANDSBLIND O1: those behind the row's are not
 *   METBLIND   O1: a look from before the row was met            UNCLOSED   O3: what was read is sent
 *   OKFIRST    O4: OK, then the offer                            LEAVEBLIND O6: what is in hand is not in the row
 *   OWEDBLIND  O6: the register does not say what is in hand     ACKFREES   O7: an ack frees the key
 *   HALT NOTESBLIND F2: notes of others are not read             HALT NOTESOLD F2: by a look from before the partition was taken
 *   HALT DEADFREES O7: the dead letter of a delivery from before a crash frees the key of who has it now
 * VACUITY1: what was in hand at a hand-over was ended by the next holder. VACUITY2: the register says that something is in hand. VACUITY3 (HALT):
 * the next keeper found the note. All must fail.
 * Not here: tasks that are redriven, and by whom (failure.pml has one keeper). The ack of a worker that was given up, after the next
 * hand-over of a task that another one has (guarantees.md, G21); buckets of more than ten minutes ago, of which those behind the row's are
 * not asked for, so that the register alone says who sends. */
#ifndef NMOVE
#define NMOVE 1
#endif
#ifndef NCRASH
#define NCRASH 1
#endif
#ifndef NFAIL
#define NFAIL 0
#endif
#define B(i) (1 << (i))
#define UPTO(i) (B((i) + 1) - 1)
byte cat = 0, row = 0, over = 0, closed = 0, left = 0, owed = 0, ok = 0, behind = 0;
byte hand = 0, old = 0, acked = 0, passed = 0;
byte placed = 1, keeper = 0, ph[2];
byte moves = 0, crashes = 0, fails = 0;
byte known[3], loaded[3], scanned[3], mine[3], said[3], owes[3], met[3], seen[3], incat[3], inmet[3];
bool looked[3], inlook[3], inkeeps[3];
bool seenhere = false;
#ifdef VACUITY1
#define V1(is) if :: is -> seenhere = true :: else fi
#else
#define V1(is) skip
#endif
#ifdef VACUITY2
#define V2(is) if :: is -> seenhere = true :: else fi
#else
#define V2(is) skip
#endif
#ifdef VACUITY3
#define V3(is) if :: is -> seenhere = true :: else fi
#else
#define V3(is) skip
#endif
#ifdef HALT
bool note = false, dying = false, halts[3], innote[3];
byte noter = 0;
#define LETS(m, i) (i == 0 || !halts[m])
#define HALTED note
#else
#define LETS(m, i) true
#define HALTED false
#endif
#define HELD(m) ((ph[0] == m -> 1 : 0) | (ph[1] == m -> 2 : 0))

#define KEEPS(m) (keeper == m)
#ifdef PARTBLIND
#define NEEDS(m, i) B(i)
#elif defined(HANDSBLIND)
#define NEEDS(m, i) (B(i) | (seen[m] & UPTO(i)))
#else
#define NEEDS(m, i) (B(i) | seen[m])
#endif
#define LOOKED(m) looked[m]
#ifdef METBLIND
#define MET(m, i) true
#else
#define MET(m, i) (met[m] & B(i))
#endif
#ifdef UNCLOSED
#define READ(m) loaded[m]
#else
#define READ(m) scanned[m]
#endif
#ifdef ACKFREES
#define FREED(i) B(i)
#else
#define FREED(i) (B(i) & ~hand)
#endif
#ifdef DEADFREES
#define BURIED(i) B(i)
#else
#define BURIED(i) FREED(i)
#endif
#define WAITS(m) (known[m] & ~over & ~said[m])
#define FORGET(m) known[m] = 0; loaded[m] = 0; scanned[m] = 0; mine[m] = 0; said[m] = 0; owes[m] = 0; met[m] = 0; seen[m] = 0; \
  looked[m] = false; inlook[m] = false; incat[m] = 0; inmet[m] = 0; inkeeps[m] = false

inline meet(m, rows) { met[m] = met[m] & ~((rows) & ~known[m]); known[m] = known[m] | (rows) }

/* the first one that is known, with nothing in hand, and nothing that may come before it */
#define MAYSTART(m, i) (KEEPS(m) && ph[i] == m && (WAITS(m) & UPTO(i)) == B(i) && !mine[m] && !said[m] && !(left & hand & loaded[m]) && \
  !(owed & hand) && !(owes[m] & hand) && LOOKED(m) && MET(m, i) && (NEEDS(m, i) & ~(HELD(m) & READ(m))) == 0 && LETS(m, i))

inline start(m, i) {
  assert(!(hand & ~B(i)));                                /* one at a time */
  assert(i == 0 || !(behind & 1) || (over & 1));          /* in order */
  assert(i == 0 || !HALTED);
#ifdef HALT
  V3(i == 1 && passed && noter && noter != m);
#endif
  hand = hand | B(i); mine[m] = mine[m] | B(i) }

inline take(m, p) { ph[p] = m;
#ifndef NOTESOLD
  looked[m] = false; inkeeps[m] = false;
#endif
}

inline letgo(m, p) {
#ifndef LEAVEBLIND
  left = left | (mine[m] & B(p) & ~over);
#endif
  V1(mine[m] & B(p) & ~over);
  owes[m] = owes[m] | (mine[m] & over & B(p));
  mine[m] = mine[m] & ~B(p); known[m] = known[m] & ~B(p); loaded[m] = loaded[m] & ~B(p); scanned[m] = scanned[m] & ~B(p); met[m] = met[m] & ~B(p);
  inmet[m] = inmet[m] & ~B(p);
  ph[p] = 0 }

proctype Instance(byte m) {
  byte p = 0;
end:
  do
  /* O1: the register, when nobody has it */
  :: atomic { keeper == 0 && placed == m -> keeper = m; looked[m] = false; inkeeps[m] = false }
  /* the look: the catalogue and the notes are read when it begins at the earliest */
  :: atomic { placed == m && !inlook[m] && (!looked[m] || (known[m] & ~met[m]) || (cat & ~seen[m])
#ifdef HALT
       || halts[m] != note
#endif
       ) -> inlook[m] = true; incat[m] = cat; inmet[m] = known[m]; inkeeps[m] = (keeper == m);
#ifdef HALT
       innote[m] = note
#endif
     }
  :: atomic { inlook[m] -> inlook[m] = false; seen[m] = incat[m]; met[m] = met[m] | (inmet[m] & known[m]); looked[m] = looked[m] | inkeeps[m];
       incat[m] = 0; inmet[m] = 0; inkeeps[m] = false;
#ifdef HALT
#ifndef NOTESBLIND
       halts[m] = innote[m];
#else
       halts[m] = halts[m] && note;
#endif
       innote[m] = false
#endif
     }
  /* a partition that is placed here, and that nobody holds */
  :: atomic { placed == m && (cat & 1) && ph[0] == 0 -> take(m, 0) }
  :: atomic { placed == m && (cat & 2) && ph[1] == 0 -> take(m, 1) }
  :: atomic { HELD(m) & ~loaded[m] -> p = ((HELD(m) & ~loaded[m]) & 1 -> 0 : 1); meet(m, row & ~over & B(p)); loaded[m] = loaded[m] | B(p);
       if :: closed & B(p) -> scanned[m] = scanned[m] | B(p) :: else fi; p = 0 }
  /* O3: closing, then the scan */
  :: atomic { loaded[m] & HELD(m) & ~closed -> closed = closed | (((loaded[m] & HELD(m) & ~closed) & 1) -> 1 : 2) }
  :: atomic { loaded[m] & HELD(m) & closed & ~scanned[m] ->
       meet(m, row & ~over & loaded[m] & closed & ~scanned[m]); scanned[m] = scanned[m] | (loaded[m] & closed) }
  :: atomic { MAYSTART(m, 0) -> start(m, 0) }
  :: atomic { MAYSTART(m, 1) -> start(m, 1) }
  /* the end of what was acked: said by who holds the row, then durable */
  :: atomic { acked & ~over & ~said[m] & loaded[m] & HELD(m) -> p = ((acked & ~over & ~said[m] & loaded[m] & HELD(m)) & 1 -> 0 : 1);
       said[m] = said[m] | B(p); mine[m] = mine[m] & ~FREED(p); p = 0 }
  :: atomic { said[m] -> over = over | said[m]; said[m] = 0 }
#ifdef HALT
  /* F1: the note, then the end */
  :: atomic { dying && ph[0] == m && (loaded[m] & 1) && !halts[m] -> note = true; halts[m] = true; noter = m; innote[m] = inlook[m] }
  :: atomic { dying && ph[0] == m && (loaded[m] & 1) && halts[m] && note -> dying = false; said[m] = said[m] | 1; mine[m] = mine[m] & ~BURIED(0) }
#endif
  /* O6: what is placed elsewhere */
  :: atomic { placed != m && ph[0] == m && !(said[m] & 1) -> letgo(m, 0) }
  :: atomic { placed != m && ph[1] == m && !(said[m] & 2) -> letgo(m, 1) }
  :: atomic { placed != m && keeper == m && HELD(m) == 0 ->
#ifndef OWEDBLIND
       owed = owed | owes[m];
#endif
       V2(owes[m] & hand);
       owes[m] = 0; keeper = 0; looked[m] = false; inkeeps[m] = false; inlook[m] = false; incat[m] = 0; inmet[m] = 0; seen[m] = 0; met[m] = 0 }
  :: atomic { crashes < NCRASH && placed == m && keeper == m && mine[m] -> crashes++; placed = 3 - m; old = old | (hand & mine[m]); hand = hand & ~mine[m]; FORGET(m);
#ifdef HALT
       halts[m] = false; innote[m] = false;
#endif
       if :: ph[0] == m -> ph[0] = 0 :: else fi; if :: ph[1] == m -> ph[1] = 0 :: else fi; if :: keeper == m -> keeper = 0 :: else fi }
  od }

proctype Placement() {
end:
  do
  :: atomic { moves < NMOVE -> moves++; placed = 3 - placed }
  od }

/* a worker: done, or it failed, or its lease is over */
proctype Worker() {
  byte i = 0;
end:
  do
  :: atomic { hand -> i = (hand & 1 -> 0 : 1); hand = hand & ~B(i);
       if
       :: acked = acked | B(i);
          if :: (over | said[1] | said[2]) & B(i) -> mine[1] = mine[1] & ~B(i); mine[2] = mine[2] & ~B(i) :: else fi
       :: fails < NFAIL -> fails++; mine[1] = mine[1] & ~B(i); mine[2] = mine[2] & ~B(i)
#ifdef HALT
       :: i == 0 && !dying && !note && !passed && !(acked & 1) -> dying = true
#endif
       fi; i = 0 }
  :: atomic { old & ~(left & hand) -> i = ((old & ~(left & hand)) & 1 -> 0 : 1); old = old & ~B(i); acked = acked | B(i); i = 0 }
  od }

/* O4: the catalogue, the row, the offer where `closing` has passed it, OK. What is not closed is met by the scan after closing, or before. */
proctype Caller(byte i) {
  if :: i == 1 && (ok & 1) -> behind = behind | 1 :: skip fi;
  atomic { cat = cat | B(i); row = row | B(i) }
#ifdef OKFIRST
  atomic { ok = ok | B(i) }
#endif
  atomic { if :: ph[i] && (loaded[ph[i]] & B(i)) && (closed & B(i)) -> meet(ph[i], B(i) & ~over) :: else fi;
#ifndef OKFIRST
     ok = ok | B(i)
#endif
     }
}

#ifdef HALT
proctype Person() {
end:
  do
  :: atomic { note && (over & 1) && !passed -> note = false; passed = 1 }
  od }
#endif

proctype Rest() {
end:
  timeout ->
  assert(over == 3 || HALTED);
  assert(!(seenhere && over == 3));
}
init { atomic { run Instance(1); run Instance(2); run Placement(); run Worker(); run Rest();
#ifdef STORED
  cat = 3; row = 3; closed = 3; ok = 3; behind = 1;
#else
#ifdef ANNOUNCED
  cat = 3;
#else
  cat = 2;
#endif
  run Caller(0); run Caller(1);
#endif
#ifdef HALT
  run Person()
#endif
} }
