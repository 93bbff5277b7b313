package timerd

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Progress is how far an attempt has come.
type Progress struct {
	Fraction float64 // 0 to 1
	Cursor   []byte  // what the next attempt needs to go on from there; up to 1 KiB
}

// word is what a handler has said last, and when.
type word struct {
	Progress
	at time.Time
}

// Progress says how far the handler has come. It goes to the server with the next sign of life, and with a failure: the next
// attempt has it as PreviousProgress. Each call begins the StallTimeout anew.
func (t *Task) Progress(fraction float64, cursor []byte) {
	t.said.Store(&word{Progress{fraction, cursor}, time.Now()})
}

// heard is when the handler has said something last, or that instant.
func (t *Task) heard(begun time.Time) time.Time {
	if said := t.said.Load(); said != nil && said.at.After(begun) {
		return said.at
	}
	return begun
}

func reports(tasks []*Task) (found []message) {
	for _, task := range tasks {
		if said := task.said.Load(); said != nil {
			progress := message{"fraction": said.Fraction, "cursor": said.Cursor}
			age := time.Since(said.at).Milliseconds()
			found = append(found, message{"ackToken": task.AckToken, "progress": progress, "ageMs": age})
		}
	}
	return found
}

const (
	look = time.Second / 2
	// So long before the server's first chance to miss a word it is told: it waits two seconds longer than the worker.
	ahead = 2 * look
	// The server ends an attempt two seconds after its time is over: then it tells why.
	overdue = 2*time.Second + look
)

// asksAt is when the server is asked whether the time of the attempt is over; zero: never.
func (t *Task) asksAt(begun time.Time) (at time.Time) {
	if t.AttemptTimeout > 0 {
		at = begun.Add(t.AttemptTimeout + overdue)
	}
	if ends := t.Deadline.Add(overdue); !t.Deadline.IsZero() && (at.IsZero() || ends.Before(at)) {
		at = ends
	}
	return at
}

func (t *Task) hasExpired() bool { return !t.Deadline.IsZero() && !time.Now().Before(t.Deadline) }

// watch fails the attempts whose handlers have said nothing for too long, and asks about those whose time is over.
func (w *worker) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(look):
		}
		stalled, due := w.silent(time.Now())
		for _, held := range stalled {
			held.stop(Stalled)
			go func() {
				defer held.telling.Done()
				w.fail(ctx, held, fmt.Errorf("Stalled: the handler said no progress for %v", w.stallOf(held.task)))
			}()
		}
		if len(due) > 0 {
			go w.keep(ctx, due)
		}
	}
}

// silent finds those that have stalled, and those of which the server is to hear now.
func (w *worker) silent(now time.Time) (stalled []*hold, due []*Task) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, held := range w.inHand {
		heard, stall, known := held.task.heard(held.begun), w.stallOf(held.task), held.task.StallTimeout
		if held.isEnded {
			continue
		}
		if asks := held.asksAt; !asks.IsZero() && now.After(asks) {
			held.asksAt = time.Time{}
			due = append(due, held.task)
		} else if stall == 0 {
			continue
		} else if now.Sub(heard) >= stall {
			held.isEnded = true
			held.telling.Add(1)
			stalled = append(stalled, held)
		} else if known > 0 && heard.After(held.told) && now.Add(ahead).Sub(held.told) >= known {
			held.told = heard
			due = append(due, held.task)
		}
	}
	return stalled, due
}

func (w *worker) stallOf(task *Task) time.Duration {
	return min(cmp.Or(w.stall, task.StallTimeout), cmp.Or(task.StallTimeout, w.stall))
}
