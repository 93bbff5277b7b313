/* failure.pml: one ordering key of which tasks fail: HOLD, HALT, PASS; with a keeper that crashes at any step.
 *
 * WHAT: tasks 1..N of one key, all stored. Who keeps the key, and in which order rows come to it, is the matter of order.pml; here one keeper
 *   sends them, dies and comes back with nothing but what is durable.
 *   place[i]   durable: where its row stands              over, dead   durable: it has ended; dead: with its dead letter, in one write
 *   note       durable: the task that halts the key (0: none does)
 *   in memory: read (notes and rows are), hand (who has a worker), said (acked, not durable yet), dying (failed for good, not durable yet),
 *   again (failed, its next attempt is not durable yet), halted (by which task, dead or redriven), met (redriven rows that were read)
 * RULES
 *   F1 HALT: the note, THEN the end. Nothing of the key starts from the end on until somebody has resumed it.
 *   F2 HALT: a keeper reads the notes, THEN sends. A note without its dead letter halts nothing: its task lives, or was redriven or purged.
 *   F3 HALT: who resumes a key names the task that halts it, and another one goes on halting it. The note goes, THEN the key goes on.
 *   F5 HALT: what is redriven while it alone halts the key keeps its place. Its row may be met after those behind it, so the note stays, and lets
 *     nothing but that task go. The end of the task is durable, THEN the note goes. Nobody skips a task that lives.
 *   F4 PASS: the next attempt has its place by its new time. It is durable THERE, THEN the key goes on.
 * PROMISES, at the start of each delivery: nothing else of the key is in hand; places never go back (that is the fence); no dead letter that
 *   nobody has resumed. Where a keeper finds the key halted, that task is dead, and nothing has begun since. At rest every task has ended.
 *
 * RUN: check.sh failure.pml [-DHALT] [-DPASS] [-D..]   N=3, NCRASH=2, NFAIL=2, NAGAIN=2
 * BROKEN VARIANTS, each must fail:
 *   HALT: ENDFIRST F1   NOTESBLIND F2   NOTEALONE F2   RESUMEANY F3   GOFIRST F3   NOTEGOES F5   SKIPSALIVE F5   NOTEEARLY F5
 *   PASS: PASSEARLY F4  KEEPSPLACE F4
 * VACUITY1: with HALT, a keeper found the key halted. VACUITY2: with HALT, a repeat of a resume met another note. VACUITY3: with PASS, a task
 * was passed. VACUITY4: with HALT, a redriven task has died again. All must fail. */
#ifndef N
#define N 3
#endif
#ifndef NCRASH
#define NCRASH 2
#endif
#ifndef NFAIL
#define NFAIL 2
#endif
#ifndef NREDRIVE
#define NREDRIVE 2
#endif
#ifndef NAGAIN
#define NAGAIN 2
#endif
#define B(i) (1 << (i))
#define OPEN(i) (!((over | dead) & B(i)))
#define MET(i) (!(lives & B(i)) || (met & B(i)))
#ifdef PASSEARLY
#define IDLE (!hand && !said && !dying)
#else
#define IDLE (!hand && !said && !dying && !again)
#endif
byte place[N]; byte over = 0, dead = 0, note = 0, lives = 0;             /* durable; lives: redriven */
bool up = true, read = false; byte halted = 0, met = 0;
byte hand = 0, said = 0, dying = 0, again = 0, late = 0;                /* in memory; a number is that of a task and one */
byte top = 0, last = 0, crash = 0, fails = 0, agains = 0, begun = 0, resumed = 0;
byte redrives = 0; bool v1 = false, v2 = false, v3 = false, v4 = false;

inline start(i) {
  assert(!hand);                                                        /* serial */
  assert(place[i] >= top);                                              /* the fence */
#ifdef HALT
  assert(!(dead & ~resumed));                                           /* halted */
#endif
  if :: i < begun -> v3 = true :: else fi;
#ifdef NOTEEARLY
  if :: note == i + 1 -> note = 0 :: else fi;
#endif
  top = place[i]; hand = i + 1; if :: i + 1 > begun -> begun = i + 1 :: else fi }

proctype Keeper() {
  byte f, k;
end:
  do
  :: atomic { !up -> up = true }
  /* F2 */
  :: atomic { up && !read ->
#ifdef NOTESBLIND
       halted = 0;
#elif defined(NOTEALONE)
       halted = note;
       if :: halted -> v1 = true; assert(dead & B(note - 1)) :: else fi;
#else
       if :: note && (over & B(note - 1)) -> note = 0 :: else fi;
       halted = note;
       if :: halted && (dead & B(note - 1)) -> v1 = true; assert(begun == note) :: else fi;
#endif
       read = true }
  :: atomic { up && read && IDLE && (!halted || OPEN(halted - 1)) && (over | dead) != B(N) - 1 ->
       f = N; k = 0;
       do :: k < N -> if :: OPEN(k) && MET(k) && (!halted || halted == k + 1) && again != k + 1 && (f == N || place[k] < place[f]) -> f = k :: else fi; k++ :: k >= N -> break od;
       if :: f < N -> start(f) :: else fi; f = 0; k = 0 }
  /* its worker */
  :: atomic { up && hand -> said = hand; hand = 0 }
#ifdef HALT
  :: atomic { up && read && (lives & ~met) -> met = lives }
  :: atomic { up && said -> over = over | B(said - 1); if :: halted == said -> halted = 0 :: else fi; said = 0 }
  :: atomic { up && read && !halted && note && (over & B(note - 1)) -> note = 0 }
#else
  :: atomic { up && said -> over = over | B(said - 1); said = 0 }
#endif
#ifdef HALT
  :: atomic { up && hand && fails < NFAIL -> fails++; dying = hand; hand = 0 }
#ifdef ENDFIRST
  :: atomic { up && dying && !late -> dead = dead | B(dying - 1); halted = dying; late = dying; dying = 0 }
  :: atomic { up && late -> note = late; late = 0 }
#else
  :: atomic { up && dying && note != dying -> note = dying }
  :: atomic { up && dying && note == dying ->
       if :: lives & B(dying - 1) -> v4 = true :: else fi; lives = lives & ~B(dying - 1);
       dead = dead | B(dying - 1); halted = dying; dying = 0 }
#endif
#else
  :: atomic { up && hand && fails < NFAIL -> fails++; dying = hand; hand = 0 }
  :: atomic { up && dying -> dead = dead | B(dying - 1); dying = 0 }
#endif
  :: atomic { up && hand && agains < NAGAIN -> agains++; again = hand; hand = 0 }
  :: atomic { up && again && !hand ->
#if defined(PASS) && !defined(KEEPSPLACE)
       last++; place[again - 1] = N + last;
#endif
       again = 0 }
#ifdef KEEPSPLACE
  /* those behind it do not wait for it */
  :: atomic { up && again && !hand && !said && !dying -> k = 0;
       do :: k < N && !(OPEN(k) && again != k + 1) -> k++ :: else -> break od;
       if :: k < N -> start(k) :: else fi; k = 0 }
#endif
  :: atomic { up && crash < NCRASH -> crash++; up = false; read = false; halted = 0; met = 0; hand = 0; said = 0; dying = 0; again = 0; late = 0 }
  od }

#ifdef HALT
/* each call may come a second time, later */
proctype Person() {
  byte r = 0; bool repeats = false;
end:
  do
#ifdef SKIPSALIVE
  :: atomic { up && read && halted && note && !repeats -> r = note }
#else
  :: atomic { up && read && halted && note && (dead & B(note - 1)) && !repeats -> r = note }
#endif
     atomic {
#ifdef GOFIRST
       if :: dead & B(r - 1) -> halted = 0; resumed = resumed | B(r - 1) :: else fi }
     atomic { if :: note == r && (dead & B(r - 1)) -> note = 0 :: else fi; repeats = true }
#elif defined(SKIPSALIVE)
       if :: note == r -> note = 0; resumed = resumed | B(r - 1) :: else fi; repeats = true }
     atomic { if :: !note -> halted = 0 :: else fi }
#else
       if :: note == r && (dead & B(r - 1)) -> note = 0; resumed = resumed | B(r - 1) :: else fi; repeats = true }
     atomic { if :: !note -> halted = 0 :: else fi }
#endif
  /* F5 */
  :: atomic { up && read && note && halted == note && (dead & B(note - 1)) && redrives < NREDRIVE ->
       redrives++; lives = lives | B(note - 1); dead = dead & ~B(note - 1); met = met & ~B(note - 1);
#ifdef NOTEGOES
       note = 0; halted = 0
#endif
     }
  /* the repeat */
  :: atomic { repeats && r && up && read -> if :: note && note != r -> v2 = true :: else fi;
#ifdef RESUMEANY
       note = 0; halted = 0;
#endif
       repeats = false; r = 0 }
  od }
#endif

proctype Rest() {
end:
  timeout ->
  assert((over | dead) == B(N) - 1 || !up);
#ifdef VACUITY1
  assert(!v1);
#endif
#ifdef VACUITY2
  assert(!v2);
#endif
#ifdef VACUITY4
  assert(!v4);
#endif
#ifdef VACUITY3
  assert(!v3);
#endif
}
init { atomic { place[0] = 1; place[1] = 2; place[2] = 3; run Keeper(); run Rest();
#ifdef HALT
  run Person()
#endif
} }
