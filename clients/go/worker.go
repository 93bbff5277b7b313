package timerd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Task is a delivery in the hands of a worker.
type Task struct {
	ID          string `json:"taskId"`
	DeliveryID  string // the same over all attempts: by it a repeat is told
	AckToken    []byte
	Queue, Key  string
	Payload     []byte
	ContentType string
	Labels      map[string]string
	FireTime    time.Time
	Attempt     int // 1 for the first
	Late        bool
	Traceparent string
}

// Outcome of a task: "ACK" (done), "NACK" (to be tried again, After a span or by the retry policy), "REJECT" (a dead letter),
// "RELEASE" (not begun: the attempt does not count), or "THROTTLED": of the queue, or of all that list the Limit, nothing
// starts for a span After, and the attempt does not count. As an error of a handler it is what becomes of its task.
type Outcome struct {
	Action string
	After  *time.Duration
	Text   string
	Limit  string // of "THROTTLED": a limit that the queue lists; empty: its own
}

func (o *Outcome) Error() string { return o.Text }

// Retry lets the task come again after a span of its own.
func Retry(after time.Duration, text string) error {
	return &Outcome{Action: "NACK", After: &after, Text: text}
}

// Reject makes the task a dead letter.
func Reject(text string) error { return &Outcome{Action: "REJECT", Text: text} }

// Throttled is for a handler that was told to wait, as by HTTP 429: up to an hour, of the queue or of all that list the limit.
func Throttled(after time.Duration, limit, text string) error {
	return &Outcome{Action: "THROTTLED", After: &after, Limit: limit, Text: text}
}

// Receive waits until tasks of the queue are due, up to a minute, and returns up to `most`. Finish them within the lease.
func (c *Client) Receive(ctx context.Context, queue string, most int, wait, lease time.Duration) ([]*Task, error) {
	var reply struct{ Tasks []*Task }
	request := message{"queue": queue, "maxTasks": most, "wait": span(wait), "lease": span(lease)}
	err := c.call(ctx, "WorkService/Receive", request, &reply, wait)
	return reply.Tasks, err
}

// Finish says what became of received tasks, and returns when that is on stable storage. A task that had ended, or that
// another worker has by now, is passed over.
func (c *Client) Finish(ctx context.Context, outcome Outcome, tasks ...*Task) error {
	request := message{"ackTokens": tokens(tasks), "action": "SETTLE_ACTION_" + outcome.Action, "error": outcome.Text}
	if outcome.After != nil {
		request["delay"] = span(*outcome.After)
	}
	if outcome.Action == "THROTTLED" {
		request["action"] = "SETTLE_ACTION_NACK"
		request["throttle"] = message{"limit": outcome.Limit, "after": request["delay"]}
	}
	return c.Call(ctx, "WorkService/Finish", request, &struct{}{})
}

// Extend begins the leases anew, and returns the ack tokens of the tasks that are lost.
func (c *Client) Extend(ctx context.Context, lease time.Duration, tasks ...*Task) ([][]byte, error) {
	extended, err := c.extend(ctx, lease, tasks)
	return extended.Lost, err
}

type extended struct {
	Lost       [][]byte
	Interrupts []struct {
		AckTokens []byte
		Reason    string
	}
}

func (c *Client) extend(ctx context.Context, lease time.Duration, tasks []*Task) (reply extended, err error) {
	err = c.Call(ctx, "WorkService/Extend", message{"ackTokens": tokens(tasks), "lease": span(lease)}, &reply)
	return reply, err
}

func tokens(tasks []*Task) (found [][]byte) {
	for _, task := range tasks {
		found = append(found, task.AckToken)
	}
	return found
}

// Handler works on a task. An error lets it come again by the retry policy, unless it is of Retry, Reject or
// Throttled. The context ends when the work is for nothing: context.Cause says why, and is one of Lost, Cancelled and Expired. What
// the handler returns then counts as ever; an error ends a cancelled task as cancelled.
type Handler func(context.Context, *Task) error

// Interrupted is why the context of a handler has ended.
type Interrupted string

const (
	Lost      Interrupted = "lost"      // another worker has the task
	Cancelled Interrupted = "cancelled" // it was cancelled or purged
	Expired   Interrupted = "expired"   // its time is over
)

// As the server says them; others are of a later one.
var reasons = map[string]Interrupted{"INTERRUPT_REASON_CANCELLED": Cancelled, "INTERRUPT_REASON_EXPIRED": Expired}

func (i Interrupted) Error() string { return "the task is " + string(i) }

// Working says how Work works; the zero value is good.
type Working struct {
	Concurrency int           // handlers at a time, up to 1,000, default 10; more tasks are never in hand
	Lease       time.Duration // after the end of this process others get its tasks so late; default 30 s
}

// Work calls the handler for each task that is due, and renews leases meanwhile, through restarts of the server. When ctx
// is done it takes no more, waits for the handlers that run, and returns nil. It returns an error only where trying again
// would not help.
func (c *Client) Work(ctx context.Context, queue string, working Working, handle Handler) error {
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	most := min(cmp.Or(working.Concurrency, 10), 1000)
	w := &worker{Client: c, lease: cmp.Or(working.Lease, 30*time.Second), inHand: map[*Task]context.CancelCauseFunc{}}
	w.slots, w.done = make(chan struct{}, most), make(chan *Task, most)
	go w.renew(lasting)
	go w.acknowledge(lasting)
	var failed *Error
	for ctx.Err() == nil && (failed == nil || failed.isRetryable()) {
		w.slots <- struct{}{}
		tasks, err := c.Receive(ctx, queue, most-len(w.slots)+1, 20*time.Second, w.lease)
		<-w.slots
		if failed = nil; errors.As(err, &failed) && ctx.Err() == nil {
			slog.Warn("timerd: no tasks are received", "queue", queue, "error", err)
		}
		for _, task := range tasks {
			w.slots <- struct{}{}
			go w.work(lasting, task, handle)
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
	lease  time.Duration
	slots  chan struct{} // one for each task in hand
	done   chan *Task    // to be acknowledged
	mutex  sync.Mutex
	inHand map[*Task]context.CancelCauseFunc
}

func (w *worker) work(ctx context.Context, task *Task, handle Handler) {
	handling, end := context.WithCancelCause(ctx)
	w.mutex.Lock()
	w.inHand[task] = end
	w.mutex.Unlock()
	err := handle(handling, task)
	if err == nil {
		w.done <- task
		return
	}
	outcome := &Outcome{Action: "NACK", Text: err.Error()}
	errors.As(err, &outcome)
	w.finish(ctx, *outcome, task)
}

// A task whose outcome cannot be told comes again.
func (w *worker) finish(ctx context.Context, outcome Outcome, tasks ...*Task) {
	if err := w.Finish(ctx, outcome, tasks...); err != nil {
		slog.Warn("timerd: tasks are not finished, and come again", "tasks", len(tasks), "error", err)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, task := range tasks {
		w.inHand[task](nil)
		delete(w.inHand, task)
		<-w.slots
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
		}
	}
}

// renew tells that the tasks in hand are still worked on, and ends the contexts of those that are interrupted.
func (w *worker) renew(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.lease / 3):
		}
		w.mutex.Lock()
		tasks, ends := []*Task{}, map[string]context.CancelCauseFunc{}
		for task, end := range w.inHand {
			tasks, ends[string(task.AckToken)] = append(tasks, task), end
		}
		w.mutex.Unlock()
		if len(tasks) == 0 {
			continue
		}
		extended, err := w.extend(ctx, w.lease, tasks)
		if err != nil && ctx.Err() == nil {
			slog.Warn("timerd: leases are not renewed", "tasks", len(tasks), "error", err)
		}
		for _, token := range extended.Lost {
			ends[string(token)](Lost)
		}
		for _, each := range extended.Interrupts {
			if end, reason := ends[string(each.AckTokens)], reasons[each.Reason]; end != nil && reason != "" {
				end(reason)
			}
		}
	}
}
