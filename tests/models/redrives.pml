/* redrives.pml: dead letters that halt an ordering key in a cluster: any instance redrives or skips them, one keeper sends the tasks.
 *
 * WHAT: two tasks of one key, both stored. The keeper sends them by what it knows of the notes; who redrives or skips (a door) goes by what it
 *   has read at the store, and may stand still between any two of its steps. How partitions and the shard change hands is in shards.pml.
 *   st, gen, place   durable: how the task stands; how often it has died; where it stands in the key (1: in the place that it had)
 *   note             durable: the key stands still because of that death of the task (0: none)
 *   known, lives     the keeper's: the note; and its task lives again, as far as that is known        met   the keeper has met its row
 *   lift             the keeper's: the task is over, and the note is to be removed
 *   skipped          the death that somebody has skipped
 * RULES
 *   F1 the note, with the end. F2 the keeper reads the notes, and that one is gone, with each look.
 *   F5 what is redriven while it alone halts the key keeps its place, and its note stays until it is over. Its row may be met late. Else it goes
 *      behind, THEN its note goes.
 *   F6 what lives again lets nothing go that stands behind it. What stands before it goes.
 *   F7 who removes a note means one death: a note of a later one stays.
 * PROMISES, at a start: no other task of the key is dead, but where somebody has skipped that; none lives again in its place before it.
 *   At rest all has ended, or a dead letter that nobody has skipped halts the key.
 *
 * RUN: check.sh redrives.pml [-D..]   NOPS=3 redrives and skips, NDIE=2 deaths of a task, NCRASH=1
 * BROKEN VARIANTS, each must fail:
 *   NOTEOFTASK F7: it removes the note of the task              EACHWAITS F6: what lives again lets nothing go but itself
 *   NOTEGOES   F5: the note goes when the task lives again      ALLBEFORE F6: what lives again holds back nothing
 * VACUITY1: two tasks live again in their places at once. VACUITY2: a keeper that has just come found a note. Both must fail. */
#ifndef NOPS
#define NOPS 3
#endif
#ifndef NDIE
#define NDIE 2
#endif
#ifndef NCRASH
#define NCRASH 1
#endif
#define WAITS 0
#define DEAD 1
#define LIVES 2
#define OVER 3
byte st[2], gen[2], place[2], note[2], skipped[2];
bool kept[2];
byte known[2], lift[2], hand = 0;                       /* hand: of the task and one */
bool lives[2], met[2], read = true, fresh = false;
byte top = 2, ops = 0, crashes = 0;
bool v1 = false, v2 = false;
#define O(i) (1 - (i))
#define OPEN(i) (st[i] == WAITS || st[i] == LIVES)
#ifdef EACHWAITS
#define LETS(i) (!known[O(i)])
#elif defined(ALLBEFORE)
#define LETS(i) (!known[O(i)] || lives[O(i)])
#else
#define LETS(i) (!known[O(i)] || (lives[O(i)] && place[i] < place[O(i)]))
#endif
#define FIRST(i) (!(OPEN(O(i)) && met[O(i)] && place[O(i)] < place[i]))
#define MAYSTART(i) (read && !hand && OPEN(i) && met[i] && FIRST(i) && LETS(i))
#ifdef NOTEOFTASK
#define REMOVE(i, g) note[i] = 0
#else
#define REMOVE(i, g) if :: note[i] == g -> note[i] = 0 :: else fi
#endif

inline start(i) {
  assert(st[O(i)] != DEAD || skipped[O(i)] == gen[O(i)]);                                     /* halted */
  assert(!(st[O(i)] == LIVES && kept[O(i)] && skipped[O(i)] != gen[O(i)] && place[O(i)] < place[i]));   /* it is the next one */
  hand = i + 1 }

proctype Keeper() {
  byte i = 0;
end:
  do
  :: atomic { MAYSTART(0) -> start(0) }
  :: atomic { MAYSTART(1) -> start(1) }
  :: atomic { hand -> i = hand - 1; hand = 0;
       if
       :: st[i] = OVER; if :: known[i] -> lift[i] = known[i]; known[i] = 0; lives[i] = false :: else fi
       :: gen[i] < NDIE -> gen[i]++; st[i] = DEAD; kept[i] = false; note[i] = gen[i]; known[i] = gen[i]; lives[i] = false; lift[i] = 0
       fi; i = 0 }
  :: atomic { lift[0] -> REMOVE(0, lift[0]); lift[0] = 0 }
  :: atomic { lift[1] -> REMOVE(1, lift[1]); lift[1] = 0 }
  /* the row of what was redriven */
  :: atomic { st[0] == LIVES && !met[0] -> met[0] = true; if :: known[0] -> lives[0] = true :: else fi }
  :: atomic { st[1] == LIVES && !met[1] -> met[1] = true; if :: known[1] -> lives[1] = true :: else fi }
  /* the look */
  :: atomic { !read || (!lift[0] && (known[0] != note[0])) || (!lift[1] && (known[1] != note[1])) ->
       read = true;
       if :: fresh && (note[0] || note[1]) -> v2 = true :: else fi; fresh = false;
       if :: !lift[0] -> known[0] = note[0]; lives[0] = (note[0] && st[0] != DEAD) :: else fi;
       if :: !lift[1] -> known[1] = note[1]; lives[1] = (note[1] && st[1] != DEAD) :: else fi }
  /* a note of a task that is over, or went behind: its keeper, or who redrove it, is gone */
  :: atomic { known[0] && (st[0] == OVER || (st[0] == LIVES && !kept[0])) -> lift[0] = known[0]; known[0] = 0; lives[0] = false }
  :: atomic { known[1] && (st[1] == OVER || (st[1] == LIVES && !kept[1])) -> lift[1] = known[1]; known[1] = 0; lives[1] = false }
  :: atomic { crashes < NCRASH && read -> crashes++; read = false; fresh = true; hand = 0; known[0] = 0; known[1] = 0; lives[0] = false; lives[1] = false;
       lift[0] = 0; lift[1] = 0; met[0] = !(st[0] == LIVES && kept[0]); met[1] = !(st[1] == LIVES && kept[1]) }
  od }

proctype Door() {
  byte i = 0, g = 0; bool keeps = false, has = false;
end:
  do
  :: atomic { ops < NOPS && st[0] == DEAD -> ops++; i = 0; g = gen[0] }; goto redrive
  :: atomic { ops < NOPS && st[1] == DEAD -> ops++; i = 1; g = gen[1] }; goto redrive
  :: atomic { ops < NOPS && st[0] == DEAD && note[0] -> ops++; skipped[0] = gen[0]; i = 0; g = gen[0] }; goto skip_it
  :: atomic { ops < NOPS && st[1] == DEAD && note[1] -> ops++; skipped[1] = gen[1]; i = 1; g = gen[1] }; goto skip_it
  od;
redrive:
  atomic { has = (note[i] != 0); keeps = (has && !note[O(i)]) };
  atomic {
    if
    :: st[i] == DEAD && gen[i] == g -> st[i] = LIVES; kept[i] = keeps;
         if :: keeps -> met[i] = false :: else -> place[i] = top; top++; met[i] = true; if :: known[i] -> lives[i] = true :: else fi fi;
         if :: st[O(i)] == LIVES && kept[O(i)] && keeps -> v1 = true :: else fi
    :: else -> has = false
    fi };
#ifndef NOTEGOES
  if :: keeps || !has -> goto done :: else fi;
#endif
skip_it:
  atomic { if :: has || !keeps -> REMOVE(i, g) :: else fi };
done:
  atomic { i = 0; g = 0; keeps = false; has = false; goto end }
}

#define HALTS(i) (st[i] == DEAD && skipped[i] != gen[i])
proctype Rest() {
end:
  timeout ->
  assert(HALTS(0) || HALTS(1) || (!OPEN(0) && !OPEN(1)));
#ifdef VACUITY1
  assert(!v1);
#endif
#ifdef VACUITY2
  assert(!v2);
#endif
}
init { atomic { place[1] = 1; met[0] = true; met[1] = true; run Keeper(); run Door(); run Door(); run Rest() } }
