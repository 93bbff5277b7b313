package timerd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Unanswered is why Ask has no result: no attempt was acknowledged in time, or none ever will be.
type Unanswered struct {
	TaskID    string
	State     string // "DEAD", "CANCELLED", "PURGED"; "EXPIRED", or another one, where the time was over
	LastError string // of the last attempt that failed
}

func (u *Unanswered) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("timerd: the task is %s: %s", u.State, u.LastError), ": ")
}

const (
	longestWait = 20 * time.Second
	// So much later than the answer is of use a server may say that there is none.
	answerLate = 10 * time.Second
	keepAnswer = time.Minute
)

type answer struct {
	TaskID, State, LastError string
	HasEnded                 bool
	Result                   struct{ Value []byte }
}

// Ask has a task handled at once, and returns what its handler has set as Result. It is stored like any other task; only its Key,
// When and ExpireAt are left out, and ExpireAfter is the timeout, default 30 s. For so long the answer is of use: then no attempt
// begins any more, one that is under way is over, and an *Unanswered is returned. With a timeout of up to 10 minutes it is on
// demand. When ctx is done before, the task is cancelled.
func (c *Client) Ask(ctx context.Context, task NewTask, timeout time.Duration) ([]byte, error) {
	timeout = cmp.Or(timeout, 30*time.Second)
	if timeout < 0 {
		return nil, invalid("the timeout is %v: give more than 0, or 0 for 30 s", timeout)
	}
	task.OnConflict, task.When, task.ExpireAt, task.ExpireAfter = "", When{}, time.Time{}, timeout
	task.KeepResult = cmp.Or(task.KeepResult, keepAnswer)
	if err := task.check(); err != nil {
		return nil, err
	}
	until, template := time.Now().Add(timeout), task.template()
	request := message{"template": template, "payload": task.Payload, "requestTime": time.Now()}
	request["requestId"] = cmp.Or(task.RequestID, rand.Text())
	limited, stop := context.WithDeadline(ctx, until.Add(answerLate))
	defer stop()
	for {
		said, err := c.answer(limited, request, min(time.Until(until), longestWait))
		switch {
		case ctx.Err() != nil:
			go c.forsake(context.WithoutCancel(ctx), request)
			return nil, ctx.Err()
		case tooLate(err) && time.Until(until) <= 0:
			return nil, &Unanswered{State: "EXPIRED"}
		case err != nil:
			return nil, err
		case said.State == "ACKED":
			return said.Result.Value, nil
		case said.HasEnded || time.Until(until) <= 0:
			return nil, &Unanswered{said.TaskID, said.State, said.LastError}
		}
	}
}

// tooLate is of a call that came to a server when its answer was of no use any more: nothing is stored.
func tooLate(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Code == "invalid_argument" && !failed.OutcomeUnknown
}

// answer is of one try, which waits so long: the same call waits for the same task.
func (c *Client) answer(ctx context.Context, request message, wait time.Duration) (said answer, err error) {
	request["timeout"] = span(max(wait, 0))
	err = c.call(ctx, "TimerService/Call", request, &said, max(wait, 0))
	said.State = strings.TrimPrefix(said.State, "TASK_STATE_")
	return said, err
}

// forsake cancels the task that nobody waits for any more, which may be on its way to the store.
func (c *Client) forsake(ctx context.Context, request message) {
	if said, err := c.answer(ctx, request, 0); err == nil && !said.HasEnded {
		_, _ = c.Cancel(ctx, Target{ID: said.TaskID})
	}
}
