package timerd

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// TaskInfo is a stored task as Get and Wait show it. Of one that is FINISHED only the ID, the times and the State are known.
type TaskInfo struct {
	ID               string `json:"taskId"`
	Namespace, Queue string
	Key              string
	State            string    // "PENDING", "IN_FLIGHT", "RETRYING"; or an end: "ACKED", "DEAD", "EXPIRED", "CANCELLED", "PURGED", "FINISHED"
	FireTime         time.Time // for when it was scheduled
	DueTime          time.Time // when it is to be delivered next, or was
	Payload          []byte
	ContentType      string
	Labels           map[string]string
	Priority         int
	OnDemand         bool
	OrderingKey      string
	LimitKey         string
	ExpireTime       time.Time // not delivered at or after it; zero: never ends
	SoftExpireTime   time.Time
	Attempt          int    // how many deliveries have begun, where that is known
	LastError        string // of its last failed attempt
	Progress         *Progress
	Result           []byte `json:"-"` // what its handler has set, where that is kept (NewTask.KeepResult); nil: nothing
	Traceparent      string
	OnEnd            string
	IsCancelling     bool // a cancel has come while a worker had it: no other attempt follows
}

// IsOver says whether the task has ended: nothing more of it is sent.
func (t *TaskInfo) IsOver() bool {
	switch t.State {
	case "ACKED", "DEAD", "EXPIRED", "CANCELLED", "PURGED", "FINISHED":
		return true
	}
	return false
}

// UnmarshalJSON reads a task as the server says it.
func (t *TaskInfo) UnmarshalJSON(said []byte) error {
	type plain TaskInfo
	wire := struct {
		*plain
		Result *struct{ Value []byte }
	}{plain: (*plain)(t)}
	err := json.Unmarshal(said, &wire)
	t.State = strings.TrimPrefix(t.State, "TASK_STATE_")
	if wire.Result != nil {
		t.Result = append([]byte{}, wire.Result.Value...)
	}
	return err
}

// Get returns a task as it is stored now.
func (c *Client) Get(ctx context.Context, task Target) (*TaskInfo, error) {
	var reply struct{ Task *TaskInfo }
	err := c.Call(ctx, "TimerService/Get", task.named(message{}), &reply)
	return reply.Task, err
}

// Wait returns a task when it has ended, or after the timeout as it is then: IsOver tells. With a timeout of 0 it waits until the
// end, or until ctx is done. Of a key it is the task that has it now.
func (c *Client) Wait(ctx context.Context, task Target, timeout time.Duration) (*TaskInfo, error) {
	until := time.Now().Add(timeout)
	for {
		wait := longestWait
		if timeout != 0 {
			wait = max(0, min(time.Until(until), longestWait))
		}
		var reply struct {
			Task     *TaskInfo
			HasEnded bool
		}
		request := task.named(message{"timeout": span(wait)})
		if err := c.call(ctx, "TimerService/Wait", request, &reply, wait); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, err
		}
		if reply.HasEnded || timeout != 0 && time.Until(until) <= 0 {
			return reply.Task, nil
		}
		task = Target{ID: reply.Task.ID}
	}
}
