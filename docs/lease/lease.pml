/* The lease on a turn, when several nodes share one database.
 *
 * A node owns a turn from an epoch on. Everything that it writes about the turn names
 * that epoch, and the database refuses what names another one. A node whose lease has
 * run out may be dead, or only slow: whoever takes its turn over counts the epoch up,
 * and from then on the old owner can write nothing.
 *
 * Statements of the database are atomic steps here. Between any two steps a process may
 * stand still for as long as it likes, which is what a pause is: a stopped process, a
 * collected heap, a message that is late. Time is the database's alone; that a lease
 * runs out is an event that may happen at any moment.
 *
 * Claims:
 *   no late write   what is written has the newest epoch (assert in WRITE)
 *   at most once    the tool runs once at most, whoever owns the turn (assert in run)
 *   one end         the turn is settled once (asserts in settle and cancel)
 *   it ends         as long as one node lives, and owners are not declared dead for ever,
 *                   the turn reaches its end (ltl ends)
 *
 * README.md says how it is checked. Two switches break it on purpose: UNFENCED writes
 * without a look at the epoch, EAGER runs a tool before its start is written down.
 */

#ifndef NODES
#define NODES 3
#endif
#define PAUSES 3   /* leases that run out although their owner lives */
#define CRASHES 2  /* nodes that die; one lives on */

mtype = { queued, running, done };

/* The turn's row and its journal. */
mtype state = queued;
byte epoch = 0;
bool expired = false;
bool toolStarted = false;
bool toolFinished = false;

/* What nobody in the system can see, for the claims alone. */
byte newest = 0;     /* epoch of the newest write */
byte toolRuns = 0;
byte settled = 0;
byte pauses = 0;
byte crashes = 0;
bool ownerDead = false; /* the owner of the newest epoch died */

/* A write is one statement: its condition and its effect are one step. */
#ifdef UNFENCED
#define MINE (state != done)
#else
#define MINE (epoch == mine && state != done)
#endif
#define WRITTEN d_step { assert(mine >= newest); newest = mine }

/* A node that dies stops between two statements, and says nothing. */
#define MAYDIE if :: atomic { crashes < CRASHES -> crashes++; if :: epoch == mine -> ownerDead = true :: else fi }; goto dead :: true fi

proctype node(byte me) {
	byte mine;
	bool isMine;

idle:
	do
	:: atomic { state == queued -> state = running; epoch++; mine = epoch; expired = false; ownerDead = false }; break
	:: atomic { expired && state != done && state != queued -> epoch++; mine = epoch; expired = false; ownerDead = false }; break
	:: state == done -> goto dead
	od;
	MAYDIE;

	/* What the journal says decides how the turn goes on. */
	if
	:: toolFinished -> goto answer
	:: !toolFinished && toolStarted -> goto unknown
	:: else
	fi;

#ifdef EAGER
	MAYDIE;
	toolRuns++; assert(toolRuns <= 1);
#endif
	/* The tool's start is written down before it is run. */
	atomic { isMine = (MINE && !toolStarted); if :: isMine -> toolStarted = true; WRITTEN :: else fi };
	if :: !isMine -> goto idle :: else fi;
	MAYDIE;
#ifndef EAGER
	toolRuns++; assert(toolRuns <= 1);
#endif
	MAYDIE;
	atomic { isMine = (MINE && !toolFinished); if :: isMine -> toolFinished = true; WRITTEN :: else fi };
	if :: !isMine -> goto idle :: else fi;
	goto answer;

unknown:
	/* It may have run or not. The model is told so, and it is not run again. */
	atomic { isMine = (MINE && !toolFinished); if :: isMine -> toolFinished = true; WRITTEN :: else fi };
	if :: !isMine -> goto idle :: else fi;

answer:
	MAYDIE;
	atomic { isMine = MINE; if :: isMine -> state = done; settled++; assert(settled == 1); WRITTEN :: else fi };
	if :: !isMine -> goto idle :: else fi;

dead:
	skip
}

/* A client may cancel the turn at any node. Whoever takes the cancel in ends the turn in
 * the place of its owner, if it has not ended by then, and moves the epoch on. */
proctype cancel() {
	if
	:: atomic { state != done -> epoch++; newest = epoch; state = done; settled++; assert(settled == 1) }
	:: true
	fi
}

/* The database's clock. A lease that nobody renews runs out; one that a living owner
 * would renew may run out too, when that owner is held up, but not for ever. */
proctype clock() {
	do
	:: state == done -> break
	:: atomic { !expired && ownerDead -> expired = true }
	:: atomic { !expired && !ownerDead && state == running && pauses < PAUSES -> pauses++; expired = true }
	od
}

init {
	byte n = 0;
	atomic {
		do
		:: n < NODES -> run node(n); n++
		:: else -> break
		od;
		run clock();
		run cancel()
	}
}

ltl ends { <> (state == done) }
