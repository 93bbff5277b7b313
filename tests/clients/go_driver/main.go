// Makes the calls of the client in Go that tests/clients asks for: a line of JSON each, on stdin and stdout.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"timerd"
)

type asked struct {
	ID                                   int
	Do, Queue, Key, TaskID, RequestID    string
	Payload                              []byte
	At                                   time.Time
	DelayMs, LeaseMs, AfterMs, ExpiresMs int64
	OnConflict, ContentType, Traceparent string
	Labels                               map[string]string
	Priority, MaxAttempts, Concurrency   int
	Outcome, Error, Method, Limit        string
	Request                              map[string]any
	Queues                               []string
	LimitKey, OnEnd                      string
	StallMs, TimeoutMs                   int64
	ByKey                                bool
	Fraction                             float64
	Cursor, Result                       string
	OrderingKey                          string
	OnDemand                             bool
	ExpireAfterMs, SoftExpireAfterMs     int64
	SoftExpiresMs, KeepResultMs          int64
	InitialBackoffMs, MaxBackoffMs       int64
	AttemptTimeoutMs                     int64
	Multiplier                           float64
	Jitter                               *float64
}

type options struct {
	Namespace, Token, CA string
	TimeoutMs            int64
}

type driver struct {
	client *timerd.Client
	mutex  sync.Mutex
	ends   map[string]chan asked // by payload: how its handler ends
	stop   context.CancelFunc
}

func main() {
	client, err := connect(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	d := &driver{client: client, ends: map[string]chan asked{}, stop: func() {}}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var a asked
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			panic(err)
		}
		go d.answer(a)
	}
}

func connect(address, given string) (*timerd.Client, error) {
	var o options
	if err := json.Unmarshal([]byte(given), &o); err != nil {
		return nil, err
	}
	made := timerd.Options{Namespace: o.Namespace, Token: o.Token, Timeout: time.Duration(o.TimeoutMs) * time.Millisecond}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		made.HTTP = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	}
	return timerd.New(address, made)
}

func (d *driver) answer(a asked) {
	result, err := d.do(context.Background(), a)
	var failed *timerd.Error
	switch {
	case err == nil:
		d.say(map[string]any{"id": a.ID, "result": result})
	case errors.As(err, &failed):
		d.say(map[string]any{"id": a.ID, "error": map[string]any{"code": failed.Code, "message": failed.Message,
			"reason": failed.Reason, "outcomeUnknown": failed.OutcomeUnknown}})
	default:
		d.say(map[string]any{"id": a.ID, "error": map[string]any{"code": "", "message": err.Error()}})
	}
}

func (d *driver) do(ctx context.Context, a asked) (any, error) {
	target := timerd.Target{ID: a.TaskID, Key: a.Key}
	when := timerd.When{At: a.At, Delay: ms(a.DelayMs)}
	switch a.Do {
	case "schedule":
		task := newTask(a)
		task.When = when
		made, err := d.client.Schedule(ctx, task)
		return map[string]any{"id": made.ID, "fireTime": made.FireTime, "outcome": made.Outcome}, err
	case "cancel":
		return d.client.Cancel(ctx, target)
	case "reschedule":
		return d.client.Reschedule(ctx, target, when)
	case "get":
		info, err := d.client.Get(ctx, target)
		return shown(info), err
	case "wait":
		info, err := d.client.Wait(ctx, target, ms(a.TimeoutMs))
		return shown(info), err
	case "call":
		var reply any
		err := d.client.Call(ctx, a.Method, a.Request, &reply)
		return reply, err
	case "work":
		working, stop := context.WithCancel(ctx)
		d.stop = stop
		how := timerd.Working{Concurrency: a.Concurrency, Lease: ms(a.LeaseMs), StallTimeout: ms(a.StallMs)}
		if a.Queues == nil {
			return nil, d.client.Work(working, a.Queue, how, d.handle)
		}
		pool := timerd.Pool{}
		for _, queue := range a.Queues {
			pool[queue] = d.handle
		}
		return nil, d.client.WorkPool(working, pool, how)
	case "ask":
		asking, stop := context.WithCancel(ctx)
		d.stop = stop
		result, err := d.client.Ask(asking, newTask(a), ms(a.TimeoutMs))
		var unanswered *timerd.Unanswered
		if errors.As(err, &unanswered) {
			return map[string]any{"state": unanswered.State, "id": unanswered.TaskID, "lastError": unanswered.LastError}, nil
		}
		return map[string]any{"result": string(result)}, err
	case "stop":
		d.stop()
	case "end":
		d.end(string(a.Payload)) <- a
	}
	return nil, nil
}

func newTask(a asked) timerd.NewTask {
	task := timerd.NewTask{Queue: a.Queue, Payload: a.Payload, Key: a.Key, OnConflict: a.OnConflict, RequestID: a.RequestID,
		Labels: a.Labels, ContentType: a.ContentType, Traceparent: a.Traceparent, Priority: a.Priority, OnDemand: a.OnDemand,
		OrderingKey: a.OrderingKey, LimitKey: a.LimitKey, ExpireAfter: ms(a.ExpireAfterMs), SoftExpireAfter: ms(a.SoftExpireAfterMs),
		MaxAttempts: a.MaxAttempts, InitialBackoff: ms(a.InitialBackoffMs), Multiplier: a.Multiplier, MaxBackoff: ms(a.MaxBackoffMs),
		AttemptTimeout: ms(a.AttemptTimeoutMs), StallTimeout: ms(a.StallMs), KeepResult: ms(a.KeepResultMs), OnEnd: a.OnEnd}
	if a.ExpiresMs != 0 {
		task.ExpireAt = time.UnixMilli(a.ExpiresMs)
	}
	if a.SoftExpiresMs != 0 {
		task.SoftExpireAt = time.UnixMilli(a.SoftExpiresMs)
	}
	if a.Jitter != nil {
		task.Jitter = *a.Jitter
		if task.Jitter == 0 { // None; in Go 0 is not set.
			task.Jitter = -1
		}
	}
	return task
}

// shown has the names of the client in TypeScript.
func shown(task *timerd.TaskInfo) any {
	if task == nil {
		return nil
	}
	said := map[string]any{"id": task.ID, "namespace": task.Namespace, "queue": task.Queue, "key": task.Key, "state": task.State,
		"isOver": task.IsOver(), "fireTime": task.FireTime, "dueTime": task.DueTime, "payload": task.Payload,
		"contentType": task.ContentType, "labels": task.Labels, "priority": task.Priority, "onDemand": task.OnDemand,
		"orderingKey": task.OrderingKey, "limitKey": task.LimitKey, "expireTime": instant(task.ExpireTime),
		"softExpireTime": instant(task.SoftExpireTime), "attempt": task.Attempt, "lastError": task.LastError,
		"traceparent": task.Traceparent, "onEnd": task.OnEnd, "isCancelling": task.IsCancelling}
	if task.Progress != nil {
		said["progress"] = []any{task.Progress.Fraction, string(task.Progress.Cursor)}
	}
	if task.Result != nil {
		said["result"] = string(task.Result)
	}
	return said
}

func instant(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at
}

func (d *driver) handle(ctx context.Context, task *timerd.Task) error {
	d.say(map[string]any{"event": "begun", "id": task.ID, "deliveryId": task.DeliveryID, "payload": task.Payload,
		"attempt": task.Attempt, "queue": task.Queue, "key": task.Key, "labels": task.Labels, "late": task.Late,
		"contentType": task.ContentType, "fireTime": task.FireTime, "traceparent": task.Traceparent, "previous": previous(task),
		"ended": ended(task), "priority": task.Priority, "deadline": instant(task.Deadline), "softDeadline": instant(task.SoftDeadline)})
	for {
		if err, isDone := d.step(ctx, task); isDone {
			return err
		}
	}
}

func ended(task *timerd.Task) any {
	told, err := task.Ended()
	if told == nil || err != nil {
		return err
	}
	return map[string]any{"outcome": told.Outcome, "id": told.ID, "deliveryId": told.DeliveryID, "queue": told.Queue, "key": told.Key,
		"orderingKey": told.OrderingKey, "labels": told.Labels, "fireTime": told.FireTime, "endTime": told.EndTime,
		"attempt": told.Attempt, "lastError": told.LastError}
}

func previous(task *timerd.Task) any {
	if task.PreviousProgress == nil {
		return nil
	}
	return []any{task.PreviousProgress.Fraction, string(task.PreviousProgress.Cursor)}
}

func (d *driver) step(ctx context.Context, task *timerd.Task) (error, bool) {
	select {
	case a := <-d.end(string(task.Payload)):
		switch a.Outcome {
		case "progress":
			task.Progress(a.Fraction, []byte(a.Cursor))
			return nil, false
		case "deaf":
			return <-make(chan error), false
		case "fail":
			return errors.New(a.Error), true
		case "retry":
			return timerd.Retry(ms(a.AfterMs), a.Error), true
		case "throttled":
			if a.ByKey {
				return timerd.ThrottledByKey(ms(a.AfterMs), a.Error), true
			}
			return timerd.Throttled(ms(a.AfterMs), a.Limit, a.Error), true
		case "reject":
			return timerd.Reject(a.Error), true
		}
		if a.Result != "" {
			task.Result = []byte(a.Result)
		}
	case <-ctx.Done():
		cause := context.Cause(ctx)
		d.say(map[string]any{"event": "lost", "payload": task.Payload, "attempt": task.Attempt, "reason": cause.(timerd.Interrupted)})
		return cause, true
	}
	return nil, true
}

func (d *driver) end(payload string) chan asked {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.ends[payload] == nil {
		d.ends[payload] = make(chan asked, 10)
	}
	return d.ends[payload]
}

func (d *driver) say(said map[string]any) {
	line, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	fmt.Println(string(line))
}

func ms(count int64) time.Duration { return time.Duration(count) * time.Millisecond }
