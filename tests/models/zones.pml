/* zones.pml: a new release of tzdata comes into force, and the schedules of the zones that it changes are armed anew, each once.
 *
 * WHAT: schedules 0..2. 0 is of a zone that changed, 1 of another one. 2 is created while all this goes on, by an instance with the old
 * data (-DMOVE: it is there, of another zone, and updated into the zone that changed).
 *   zones register     compare-and-set only: gen = whose data are in force (1 old, 2 new), next = the sweep has come so far
 *   schedule register  ver counts its changes, so a fenced cas compares it: alive, inzone (of the zone that changed), coming (an update into
 *                      it was announced), zg = the generation that its revision was armed by, by = whose data its instants are of,
 *                      left = what the revision before had ahead is not wound up.  named = its name is in the list
 *   How an update is made, and what a tick records, is the matter of schedules.pml: here each is one step, but for the winding up.
 * RULES
 *   Z1 a newer instance: cas of the zones register, THEN the sweep over the names.
 *   Z2 a schedule of a zone that changed: an update with the same definition, whose register names the generation. Which names it already
 *      is only wound up. THEN the sweep's progress, by a cas. Whoever has the data in force goes on with a sweep that is not at its end.
 *   Z3 before instants are computed: what names a generation that is not known here makes the instance read the zones register; with
 *      other data than those in force it computes nothing, but leaves the tick or call to others.
 *   Z4 who creates, or updates into another zone: announces it (the name; a cas of coming), THEN reads the zones register, THEN makes its
 *      cas, fenced by what was there at the announcement. The sweep changes what is announced, so that this cas fails.
 * PROMISES: at rest the instants of each schedule of that zone are by the new data, and nothing is left of the old ones; none was armed anew
 * twice; schedules of other zones were not touched; nothing is computed by old data once a schedule is by the new ones.
 * RUN: check.sh zones.pml [-DMOVE].  NCRASH=1 of two sweeping instances, NTICK=2 records by the instance with the old data
 * NOT MODELLED: a third generation (it takes what an unfinished sweep has left to change into its own), more than one zone that changes.
 * BROKEN, each must fail: SWEEPFIRST (Z1: the sweep, THEN the cas)   NORESUME (Z2: whoever comes after a crash begins nothing)
 *   PROGRESSFIRST (Z2: the progress, THEN the update)   NONUMBER (Z2: armed anew whatever it names)   NOWIND (Z2: what names it is passed over)
 *   OLDCOMPUTES (Z3: computed by what is known here)   NOVOID (Z4: a name without a schedule is passed over)
 *   LOOKFIRST (Z4: the zones are read, THEN it is announced)   with MOVE NOMARK (Z4: an update into the zone is not announced)
 * VACUITY1: a creation, or with MOVE an update, was stopped by the sweep. VACUITY2: one instance ended what the other one had begun. */
#ifndef NCRASH
#define NCRASH 1
#endif
#ifndef NTICK
#define NTICK 2
#endif
#define NS 3
byte gen = 1, next = 0, crash = 0;
byte ver[NS], zg[NS], by[NS], swept[NS];
bool alive[NS], named[NS], inzone[NS], coming[NS], left[NS];
bool barred = false; byte lead = 9; bool handed = false;
#define DIE atomic { if :: skip :: crash < NCRASH -> crash++; goto again fi }
#define CONCERNED(s) (inzone[s] || coming[s])

inline rearm(s) {
  atomic { v = ver[s]; z = zg[s]; a = alive[s]; c = CONCERNED(s); n = named[s] };
  if
  :: n && !a ->
#ifndef NOVOID
     atomic { if :: ver[s] == v -> ver[s]++ :: else -> z = 9 fi }
#else
     skip
#endif
  :: n && a && c ->
     if
#ifdef NONUMBER
     :: true ->
#else
     :: z < 2 ->
#endif
        atomic { if :: ver[s] == v -> ver[s]++; zg[s] = 2; by[s] = 2; left[s] = true; swept[s]++; assert(swept[s] == 1 && s != 1)
                    :: else -> z = 9 fi };
        DIE
#ifndef NONUMBER
     :: else
#endif
     fi;
#ifdef NOWIND
     if :: z < 2 -> left[s] = false :: else fi
#else
     if :: z != 9 -> left[s] = false :: else fi
#endif
  :: else
  fi }

proctype New(byte me) {
  byte v, z, p; bool a, c, n;
again:
  atomic { v = 0; z = 0; p = 0; a = false; c = false; n = false };
#ifdef NORESUME
  if :: gen == 2 -> goto over :: else fi;
#endif
#ifndef SWEEPFIRST
  atomic { if :: gen == 1 -> gen = 2 :: else fi };
  DIE;
#endif
  do
  :: atomic { next < NS -> p = next; if :: p == 0 -> lead = me :: p == NS - 1 && lead != me && lead != 9 -> handed = true :: else fi };
#ifdef PROGRESSFIRST
     atomic { if :: next == p -> next = p + 1 :: else fi };
     DIE;
#endif
     do
     :: rearm(p); if :: z != 9 -> break :: else fi              /* it was changed meanwhile: again */
     od;
     DIE;
#ifndef PROGRESSFIRST
     atomic { if :: next == p -> next = p + 1 :: else fi };
#endif
     DIE
  :: next >= NS -> break
  od;
#ifdef SWEEPFIRST
  atomic { if :: gen == 1 -> gen = 2 :: else fi };
#endif
over: skip }

/* ticks of schedule 0 in the hands of an instance with the old data */
proctype Ticks() {
  byte v, z, knows = 1, t = 0;
  do
  :: t < NTICK ->
     atomic { v = ver[0]; z = zg[0]; t++ };
#ifndef OLDCOMPUTES
     if :: z > knows -> knows = gen :: else fi;
#endif
     if
     :: knows == 1 -> atomic { if :: ver[0] == v -> assert(zg[0] < 2); by[0] = 1; ver[0]++ :: else fi }
     :: else                                                    /* it is left to a peer */
     fi
  :: t == NTICK -> break
  od }

/* a call to an instance with the old data, that knows nothing: it always reads; tried again where its cas is refused */
proctype Caller() {
  byte v, k = 0, tries = 0;
again:
  v = 0; k = 0; tries++;
#ifdef LOOKFIRST
  k = gen;
#endif
#ifdef MOVE
#ifndef NOMARK
  atomic { ver[2]++; coming[2] = true; v = ver[2] };
#else
  v = ver[2];
#endif
#else
  v = ver[2];
  named[2] = true;
#endif
#ifndef LOOKFIRST
  k = gen;
#endif
  if
  :: k == 1 ->
     atomic { if
       :: ver[2] == v -> ver[2]++; alive[2] = true; inzone[2] = true; coming[2] = false; by[2] = 1; zg[2] = 1
       :: else -> barred = true; if :: tries < 2 -> goto again :: else fi fi }
  :: else                                                       /* refused: another instance is to be asked */
  fi }

init { atomic {
  alive[0] = true; named[0] = true; inzone[0] = true; by[0] = 1; zg[0] = 1;
  alive[1] = true; named[1] = true; by[1] = 1; zg[1] = 1;
#ifdef MOVE
  alive[2] = true; named[2] = true; by[2] = 1; zg[2] = 1;
#endif
  run New(0); run New(1); run Ticks(); run Caller() } }
active proctype Monitor() {
end: if
#ifdef VACUITY1
  :: atomic { barred -> assert(false) }
#endif
#ifdef VACUITY2
  :: atomic { crash > 0 && handed -> assert(false) }
#endif
  :: atomic { timeout ->
       assert(gen == 2 && next == NS);
       assert(by[0] == 2 && !left[0]);
       assert(by[1] == 1 && ver[1] == 0);
       assert(!(alive[2] && inzone[2]) || (by[2] == 2 && !left[2])) }
  fi }
