package timerd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Handler works on a task. An error lets it come again by the retry policy, unless it is of Retry, Reject or
// Throttled. The context ends when the work is for nothing: context.Cause says why, and is one of Lost, Cancelled, Expired and
// Stalled. What the handler returns then counts as ever, unless it has stalled; an error ends a cancelled task as cancelled.
type Handler func(context.Context, *Task) error

// Interrupted is why the context of a handler has ended.
type Interrupted string

const (
	Lost      Interrupted = "lost"      // another worker has the task
	Cancelled Interrupted = "cancelled" // it was cancelled or purged
	Expired   Interrupted = "expired"   // its time is over
	Stalled   Interrupted = "stalled"   // the handler has said no Progress for too long: the attempt has failed
)

// As the server says them; others are of a later one.
var reasons = map[string]Interrupted{"INTERRUPT_REASON_CANCELLED": Cancelled, "INTERRUPT_REASON_EXPIRED": Expired}

func (i Interrupted) Error() string { return "the task is " + string(i) }

// Working says how Work works; the zero value is good.
type Working struct {
	Concurrency int           // handlers at a time, up to 1,000, default 10; more tasks are never in hand
	Lease       time.Duration // after the end of this process others get its tasks so late; default 30 s
	// StallTimeout is for how long a handler may say no Progress; 0: for any time. Of this and the task's the shorter one counts.
	StallTimeout time.Duration
}

// Pool is the handlers of several queues that share the places of one worker.
type Pool map[string]Handler

// Work calls the handler for each task that is due, and renews leases meanwhile, through restarts of the server. When ctx
// is done it takes no more, waits for the handlers that run, and returns nil. It returns an error only where trying again
// would not help.
func (c *Client) Work(ctx context.Context, queue string, working Working, handle Handler) error {
	return c.WorkPool(ctx, Pool{queue: handle}, working)
}

// WorkPool is as Work, for several queues: never more than Concurrency handlers run, of all of them together. A place that is
// free gets what is first among all queues, by priority, by how long it has waited, and by how few places there are for it.
func (c *Client) WorkPool(ctx context.Context, pool Pool, working Working) error {
	queues := slices.Sorted(maps.Keys(pool))
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	most := min(cmp.Or(working.Concurrency, 10), 1000)
	w := &worker{Client: c, lease: cmp.Or(working.Lease, 30*time.Second), stall: working.StallTimeout, inHand: map[string]*hold{}}
	w.slots, w.done = make(chan struct{}, most), make(chan *Task, most)
	go w.renew(lasting)
	go w.watch(lasting)
	go w.acknowledge(lasting)
	var failed *Error
	for ctx.Err() == nil && (failed == nil || failed.isRetryable()) {
		w.slots <- struct{}{}
		tasks, err := w.take(ctx, queues, most-len(w.slots)+1)
		<-w.slots
		if failed = nil; errors.As(err, &failed) && ctx.Err() == nil {
			slog.Warn("timerd: no tasks are received", "queues", queues, "error", err)
		}
		for _, task := range tasks {
			w.slots <- struct{}{}
			go w.work(lasting, task, pool[task.Queue])
		}
	}
	for range most {
		w.slots <- struct{}{}
	}
	if ctx.Err() == nil && failed != nil {
		return failed
	}
	return nil
}

type worker struct {
	*Client
	lease, stall time.Duration
	slots        chan struct{} // one for each handler that runs, and for each task whose end is not told
	done         chan *Task    // to be acknowledged
	mutex        sync.Mutex
	inHand       map[string]*hold // by ack token
}

// hold is a task in hand. What becomes of it is said once, by who sets isEnded.
type hold struct {
	task    *Task
	stop    context.CancelCauseFunc
	begun   time.Time
	told    time.Time // when the handler has said what the server has heard
	asksAt  time.Time // when the server is asked whether its time is over; zero: never, or it was
	isEnded bool
	telling sync.WaitGroup // that the handler has stalled
}

func (w *worker) take(ctx context.Context, queues []string, most int) ([]*Task, error) {
	if len(queues) == 1 {
		return w.Receive(ctx, queues[0], most, 20*time.Second, w.lease)
	}
	return w.ReceiveAny(ctx, queues, most, 20*time.Second, w.lease)
}

func (w *worker) work(ctx context.Context, task *Task, handle Handler) {
	handling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	now := time.Now()
	held := &hold{task: task, stop: stop, begun: now, told: now, asksAt: task.asksAt(now)}
	w.mutex.Lock()
	w.inHand[string(task.AckToken)] = held
	w.mutex.Unlock()
	err := handle(handling, task)
	switch {
	case !w.end(held): // It has stalled.
		held.telling.Wait()
		<-w.slots
	case err != nil:
		w.fail(ctx, held, err)
		<-w.slots
	case task.Result != nil && task.KeepResult > 0:
		w.finish(ctx, Outcome{Action: "ACK", Result: task.Result}, task)
		<-w.slots
	default:
		w.done <- task
	}
}

// end says whether the attempt has not ended before.
func (w *worker) end(held *hold) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	isFirst := !held.isEnded
	held.isEnded = true
	return isFirst
}

// fail hands what the attempt has said on to the next one.
func (w *worker) fail(ctx context.Context, held *hold, err error) {
	outcome := &Outcome{Action: "NACK", Text: err.Error()}
	errors.As(err, &outcome)
	if outcome.Action == "NACK" && held.task.heard(held.told).After(held.told) {
		w.keep(ctx, []*Task{held.task})
	}
	w.finish(ctx, *outcome, held.task)
}

// A task whose outcome cannot be told comes again.
func (w *worker) finish(ctx context.Context, outcome Outcome, tasks ...*Task) {
	if err := w.Finish(ctx, outcome, tasks...); err != nil {
		slog.Warn("timerd: tasks are not finished, and come again", "tasks", len(tasks), "error", err)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, task := range tasks {
		delete(w.inHand, string(task.AckToken))
	}
}

// acknowledge tells together what has gathered while the call before was on its way.
func (w *worker) acknowledge(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case task := <-w.done:
			tasks := []*Task{task}
			for len(w.done) > 0 {
				tasks = append(tasks, <-w.done)
			}
			w.finish(ctx, Outcome{Action: "ACK"}, tasks...)
			for range tasks {
				<-w.slots
			}
		}
	}
}

// renew tells that the tasks in hand are still worked on.
func (w *worker) renew(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.lease / 3):
		}
		w.mutex.Lock()
		var tasks []*Task
		for _, held := range w.inHand {
			tasks = append(tasks, held.task)
		}
		w.mutex.Unlock()
		if len(tasks) > 0 {
			w.keep(ctx, tasks)
		}
	}
}

// keep tells of some, and ends the contexts of those that are interrupted.
func (w *worker) keep(ctx context.Context, tasks []*Task) {
	extended, err := w.extend(ctx, w.lease, tasks)
	if err != nil && ctx.Err() == nil {
		slog.Warn("timerd: leases are not renewed", "tasks", len(tasks), "error", err)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, token := range extended.Lost {
		why := Lost
		if held := w.inHand[string(token)]; held != nil && held.task.hasExpired() {
			why = Expired // It is lost as well.
		}
		w.interrupt(token, why)
	}
	for _, each := range extended.Interrupts {
		if reason := reasons[each.Reason]; reason != "" {
			w.interrupt(each.AckTokens, reason)
		}
	}
}

func (w *worker) interrupt(token []byte, why Interrupted) {
	if held := w.inHand[string(token)]; held != nil {
		held.stop(why)
	}
}
