package timerd

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// NewTask is what Schedule stores. Only Queue is needed.
type NewTask struct {
	Queue       string
	Payload     []byte
	When        When
	Key         string // a name of your own, unique in the namespace
	OnConflict  string // where the key is in use: "reject" (default), "keep" or "replace"
	RequestID   string // by which a repeat is known for 24 h; a delay counts from the first call. Default a new one
	Labels      map[string]string
	ContentType string
	Traceparent string

	Priority int // 0 to 10; 10 is first
	// OnDemand: somebody waits for it, so it goes before due tasks that wait in line, 256 s at first, and two more for each second
	// that it waits. It needs an ExpireAfter of 10 minutes at most.
	OnDemand    bool
	OrderingKey string // tasks of the queue with the same one are delivered one at a time, in order
	LimitKey    string // by which tasks of the queue take turns and have limits, such as a customer

	ExpireAt time.Time // not delivered at or after it; what was delivered before goes on
	// ExpireAfter is for how long from its fire time on it is worth something, a millisecond to 100 years; 0: for ever. Then it is
	// not delivered any more, and an attempt that is under way is over.
	ExpireAfter     time.Duration
	SoftExpireAt    time.Time     // delivered, but Late, at or after it
	SoftExpireAfter time.Duration // so long after its fire time it is Late; 0: never

	MaxAttempts    int           // default 20
	InitialBackoff time.Duration // the wait before the second attempt, 1 ms to 30 days; default 1 s
	Multiplier     float64       // by which each wait is longer than the one before, 1 to 100; default 2
	MaxBackoff     time.Duration // the longest wait, to 30 days; default 1 h
	Jitter         float64       // the share of a wait that may be cut off, to 1; default 0.1, less than 0: none
	AttemptTimeout time.Duration // an attempt that takes longer has failed, 100 ms to 7 days; default 1 h
	// StallTimeout fails an attempt that says no Progress for so long, a second to 7 days; 0: never.
	StallTimeout time.Duration

	KeepResult time.Duration // for so long what its handler sets as Result is kept, up to 24 h: Get and Wait show it; 0: it is not
	OnEnd      string        // a queue in which a task is made when this one ends, however it does: Task.Ended tells its handler how
}

const (
	highestPriority   = 10
	highestMultiplier = 100
	longestOnDemand   = 10 * time.Minute
)

// check says what no server takes, by the names of the fields, before anything is sent.
func (task NewTask) check() error {
	for _, each := range []struct {
		name string
		span time.Duration
	}{
		{"When.Delay", task.When.Delay}, {"ExpireAfter", task.ExpireAfter}, {"SoftExpireAfter", task.SoftExpireAfter},
		{"InitialBackoff", task.InitialBackoff}, {"MaxBackoff", task.MaxBackoff}, {"AttemptTimeout", task.AttemptTimeout},
		{"StallTimeout", task.StallTimeout}, {"KeepResult", task.KeepResult},
	} {
		if each.span < 0 {
			return invalid("%s is %v: give more than 0, or leave it out", each.name, each.span)
		}
	}
	switch {
	case task.Priority < 0 || task.Priority > highestPriority:
		return invalid("Priority is %d: give 0 to %d", task.Priority, highestPriority)
	case task.MaxAttempts < 0:
		return invalid("MaxAttempts is %d: give 1 or more, or leave it out", task.MaxAttempts)
	case task.Multiplier != 0 && !(task.Multiplier >= 1 && task.Multiplier <= highestMultiplier):
		return invalid("Multiplier is %v: give 1 to %d, or leave it out", task.Multiplier, highestMultiplier)
	case !(task.Jitter <= 1):
		return invalid("Jitter is %v: give a share of up to 1, less than 0 for none, or leave it out", task.Jitter)
	case task.OnDemand && (task.ExpireAfter == 0 || task.ExpireAfter > longestOnDemand):
		return invalid("a task on demand goes before those that wait in line, so it may be worth something for 10 minutes at most: " +
			"give an ExpireAfter (Ask: a timeout) of up to 10 minutes, or leave OnDemand out")
	}
	return nil
}

func invalid(sentence string, values ...any) error {
	return &Error{Code: "invalid_argument", Reason: "INVALID", Message: fmt.Sprintf(sentence, values...)}
}

func (task NewTask) template() message {
	var conflict string
	if task.OnConflict != "" {
		conflict = "CONFLICT_POLICY_" + strings.ToUpper(task.OnConflict)
	}
	retry := message{}.with(message{"maxAttempts": task.MaxAttempts, "initialBackoff": task.InitialBackoff,
		"multiplier": task.Multiplier, "maxBackoff": task.MaxBackoff, "jitter": task.Jitter,
		"attemptTimeout": task.AttemptTimeout})
	return message{"queue": task.Queue, "retry": retry}.with(message{"labels": task.Labels, "contentType": task.ContentType,
		"traceparent": task.Traceparent, "priority": task.Priority, "onDemand": task.OnDemand, "orderingKey": task.OrderingKey,
		"limitKey": task.LimitKey, "expireTime": task.ExpireAt, "expireAfter": task.ExpireAfter,
		"softExpireTime": task.SoftExpireAt, "softExpireAfter": task.SoftExpireAfter, "stallTimeout": task.StallTimeout,
		"keepResult": task.KeepResult, "onEnd": task.OnEnd, "onConflict": conflict})
}

// with adds what has a value: an older server refuses a field that it does not know.
func (m message) with(values message) message {
	for name, value := range values {
		switch value := value.(type) {
		case time.Time:
			if !value.IsZero() {
				m[name] = value
			}
		case time.Duration:
			if value != 0 {
				m[name] = span(value)
			}
		default:
			if !reflect.ValueOf(value).IsZero() {
				m[name] = value
			}
		}
	}
	return m
}
