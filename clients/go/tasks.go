package timerd

import (
	"context"
	"encoding/json"
	"sync/atomic"
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
	Priority    int
	FireTime    time.Time
	// Deadline is when the attempt is worth nothing any more, by ExpireAfter; zero: never.
	Deadline time.Time
	// SoftDeadline is from when on it is late; zero: never.
	SoftDeadline time.Time
	Attempt      int // 1 for the first
	Late         bool
	Traceparent  string
	OrderingKey  string
	// PreviousProgress is what an earlier attempt has said last before it failed; nil: nothing.
	PreviousProgress *Progress
	// AttemptTimeout is how long this attempt may take in all.
	AttemptTimeout time.Duration `json:"-"`
	// StallTimeout is for how long no Progress may be said; 0: for any time.
	StallTimeout time.Duration `json:"-"`
	// KeepResult is for how long Result is kept; 0: it is not.
	KeepResult time.Duration `json:"-"`
	// Result is for a handler to set: what it has come to, for who waits for it (Ask). Up to 64 KiB.
	Result []byte `json:"-"`
	said   atomic.Pointer[word]
}

// UnmarshalJSON reads a task as the server says it.
func (t *Task) UnmarshalJSON(said []byte) error {
	type plain Task
	wire := struct {
		*plain
		AttemptTimeout, StallTimeout, KeepResult string
	}{plain: (*plain)(t)}
	err := json.Unmarshal(said, &wire)
	t.AttemptTimeout, _ = time.ParseDuration(wire.AttemptTimeout)
	t.StallTimeout, _ = time.ParseDuration(wire.StallTimeout)
	t.KeepResult, _ = time.ParseDuration(wire.KeepResult)
	return err
}

// Outcome of a task: "ACK" (done), "NACK" (to be tried again, After a span or by the retry policy), "REJECT" (a dead letter),
// "RELEASE" (not begun: the attempt does not count), or "THROTTLED": of the queue, or of all that list the Limit, nothing
// starts for a span After, and the attempt does not count. As an error of a handler it is what becomes of its task.
type Outcome struct {
	Action string
	After  *time.Duration
	Text   string
	Limit  string // of "THROTTLED": a limit that the queue lists; empty: its own
	ByKey  bool   // of "THROTTLED": what has the limit key of the task, and not the queue
	Result []byte // of "ACK": what each of the tasks has come to
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

// ThrottledByKey is as Throttled, of what has the limit key of the task: the others of its queue go on.
func ThrottledByKey(after time.Duration, text string) error {
	return &Outcome{Action: "THROTTLED", After: &after, ByKey: true, Text: text}
}

// Receive waits until tasks of the queue are due, up to a minute, and returns up to `most`. Finish them within the lease.
func (c *Client) Receive(ctx context.Context, queue string, most int, wait, lease time.Duration) ([]*Task, error) {
	return c.receive(ctx, message{"queue": queue}, most, wait, lease)
}

// ReceiveAny is as Receive, of any of several queues: those of the greatest score come first, as in a pool.
func (c *Client) ReceiveAny(ctx context.Context, queues []string, most int, wait, lease time.Duration) ([]*Task, error) {
	return c.receive(ctx, message{"queues": queues}, most, wait, lease)
}

func (c *Client) receive(ctx context.Context, request message, most int, wait, lease time.Duration) ([]*Task, error) {
	var reply struct{ Tasks []*Task }
	request["maxTasks"], request["wait"], request["lease"] = most, span(wait), span(lease)
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
		throttle := message{"limit": outcome.Limit, "after": request["delay"]}
		if outcome.ByKey {
			throttle["byKey"] = true
		}
		request["throttle"] = throttle
	}
	if keep := keepResult(tasks); outcome.Result != nil && keep > 0 {
		request["result"], request["keepResult"] = message{"value": outcome.Result}, span(keep)
	}
	return c.Call(ctx, "WorkService/Finish", request, &struct{}{})
}

func keepResult(tasks []*Task) (keep time.Duration) {
	for _, task := range tasks {
		keep = max(keep, task.KeepResult)
	}
	return keep
}

// Extend begins the leases anew, says the Progress of the tasks, and returns the ack tokens of those that are lost.
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
	request := message{"ackTokens": tokens(tasks), "lease": span(lease)}
	if said := reports(tasks); said != nil {
		request["reports"] = said
	}
	err = c.Call(ctx, "WorkService/Extend", request, &reply)
	return reply, err
}

func tokens(tasks []*Task) (found [][]byte) {
	for _, task := range tasks {
		found = append(found, task.AckToken)
	}
	return found
}
