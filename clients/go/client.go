// Package timerd schedules tasks with a timerd server, and works on them when they are due. It speaks JSON to the port
// of `timerd serve --http` (docs/use/http.md) and needs nothing but the standard library.
package timerd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	random "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options of a client; the zero value is good.
type Options struct {
	Namespace string        // default "default"
	Token     string        // a bearer token; sent by https, or to loopback
	HTTP      *http.Client  // with certificates of your own, for example; default http.DefaultClient
	Timeout   time.Duration // how long a call is repeated until it is answered; default 30 s
}

// Client makes the calls of callers and workers. Many goroutines may use it.
type Client struct {
	address string
	Options
}

// New makes a client of a server such as "http://127.0.0.1:7401". Nothing is sent yet.
func New(address string, options Options) (*Client, error) {
	place, err := url.Parse(address)
	if err != nil || place.Host == "" || place.Scheme != "http" && place.Scheme != "https" {
		return nil, fmt.Errorf("timerd: the address is %q: write http://HOST:PORT or https://HOST:PORT", address)
	}
	loopback := place.Hostname() == "localhost" || net.ParseIP(place.Hostname()).IsLoopback()
	if options.Token != "" && place.Scheme == "http" && !loopback {
		return nil, fmt.Errorf("timerd: a token is sent over TLS only: use https for %s", place.Host)
	}
	options.HTTP, options.Timeout = cmp.Or(options.HTTP, http.DefaultClient), cmp.Or(options.Timeout, 30*time.Second)
	return &Client{strings.TrimSuffix(address, "/"), options}, nil
}

// Target names a task, by its ID or by the Key that its caller has chosen.
type Target struct{ ID, Key string }

// When is an instant, or a span from now. The zero value is now.
type When struct {
	At    time.Time
	Delay time.Duration
}

// Scheduled is a task on stable storage. Outcome is "STORED", or "KEPT": the key was in use, ID is of the task that has it.
type Scheduled struct {
	ID       string    `json:"taskId"`
	FireTime time.Time `json:"fireTime"`
	Outcome  string    `json:"outcome"`
}

// Schedule stores a task, and returns when it is on stable storage.
func (c *Client) Schedule(ctx context.Context, task NewTask) (Scheduled, error) {
	var reply Scheduled
	err := task.check()
	if err != nil {
		return reply, err
	}
	request := message{"template": task.template(), "payload": task.Payload, "key": task.Key, "requestId": task.RequestID}
	err = c.Call(ctx, "TimerService/Schedule", request.due(task.When), &reply)
	reply.Outcome = strings.TrimPrefix(reply.Outcome, "ITEM_OUTCOME_")
	return reply, err
}

// Cancel returns the outcome: "CANCELLED" (no delivery starts any more), "ALREADY_FIRED", "IN_FLIGHT", "NOT_FOUND", or
// another CancelOutcome of the .proto files.
func (c *Client) Cancel(ctx context.Context, task Target) (string, error) {
	var reply struct{ Outcome string }
	err := c.Call(ctx, "TimerService/Cancel", task.named(message{"requestId": rand.Text()}), &reply)
	return strings.TrimPrefix(reply.Outcome, "CANCEL_OUTCOME_"), err
}

// Reschedule gives a task another fire time, and returns it.
func (c *Client) Reschedule(ctx context.Context, task Target, when When) (time.Time, error) {
	var reply Scheduled
	err := c.Call(ctx, "TimerService/Reschedule", task.named(message{}.due(when)), &reply)
	return reply.FireTime, err
}

// Error is a refusal of the server, or what kept a call from being answered. Without OutcomeUnknown nothing was stored.
type Error struct {
	Code           string // "not_found", "already_exists", "unavailable", ...
	Message        string // what was wrong, what is allowed, what to do
	Reason         string // for programs, as in docs/use/errors.md
	OutcomeUnknown bool
	RetryAfter     time.Duration
	onlyThisTry    bool
}

func (e *Error) Error() string { return "timerd: " + e.Code + ": " + e.Message }

// Without a reason the later ones say only that the answer got lost.
func (e *Error) isRetryable() bool {
	lost := e.Reason == "" && strings.Contains("unknown internal aborted canceled deadline_exceeded", e.Code)
	return e.Code == "unavailable" || e.Code == "resource_exhausted" && e.RetryAfter > 0 || lost
}

type message map[string]any

func (t Target) named(request message) message {
	if request["taskId"] = t.ID; t.ID == "" {
		delete(request, "taskId")
		request["key"] = t.Key
	}
	return request
}

// due says when, and gives the change a name by which the server knows its repeats.
func (m message) due(when When) message {
	if m["fireTime"] = when.At; when.At.IsZero() {
		delete(m, "fireTime")
		m["delay"] = span(when.Delay)
	}
	if m["requestId"] == nil || m["requestId"] == "" {
		m["requestId"], m["requestTime"] = rand.Text(), time.Now()
	}
	return m
}

func span(d time.Duration) string { return fmt.Sprintf("%.9fs", d.Seconds()) }

// Call makes any other unary call of the .proto files, such as "TimerService/Get": its messages are written as JSON. It
// repeats the same bytes until they are answered.
func (c *Client) Call(ctx context.Context, method string, request map[string]any, reply any) error {
	return c.call(ctx, method, request, reply, 0)
}

// The server may take `wait` longer.
func (c *Client) call(ctx context.Context, method string, request message, reply any, wait time.Duration) error {
	if c.Namespace != "" {
		request["namespace"] = c.Namespace
	}
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("timerd: the request cannot be sent: %w", err)
	}
	deadline, unknown := time.Now().Add(c.Timeout+wait), false
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		failed := c.try(ctx, method, body, reply, min(time.Until(deadline), 10*time.Second+wait))
		if failed == nil {
			return nil
		}
		again := max(failed.RetryAfter, pause/2+random.N(pause/2))
		unknown = unknown || failed.OutcomeUnknown
		if !failed.isRetryable() || ctx.Err() != nil || again >= time.Until(deadline) {
			failed.OutcomeUnknown = failed.OutcomeUnknown || unknown && (failed.onlyThisTry || failed.isRetryable())
			return failed
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

func (c *Client) try(ctx context.Context, method string, body []byte, reply any, timeout time.Duration) *Error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "POST", c.address+"/timerd.v1."+method, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		var dial *net.OpError
		wasSent := !errors.As(err, &dial) || dial.Op != "dial"
		return &Error{Code: "unavailable", Message: err.Error(), OutcomeUnknown: wasSent}
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return refusal(response, said)
	}
	if err = cmp.Or(err, json.Unmarshal(said, reply)); err != nil {
		return &Error{Code: "unavailable", Message: "the answer cannot be read: " + err.Error(), OutcomeUnknown: true}
	}
	return nil
}

// refusal reads what the server said. Where it has no reason, a proxy on the way may have answered.
func refusal(response *http.Response, said []byte) *Error {
	failed := &Error{Code: "unknown", Message: response.Status, OutcomeUnknown: true}
	if response.StatusCode < 500 && response.StatusCode != http.StatusTooManyRequests {
		failed.Code = "unimplemented"
	}
	failed.RetryAfter, _ = time.ParseDuration(response.Header.Get("Retry-After") + "s")
	var detailed struct {
		Details []struct {
			Debug struct {
				Domain, Reason string
				Metadata       map[string]string
			}
		}
	}
	_, _ = json.Unmarshal(said, failed), json.Unmarshal(said, &detailed)
	for _, detail := range detailed.Details {
		if detail.Debug.Domain == "timerd" {
			failed.Reason, failed.OutcomeUnknown = detail.Debug.Reason, false
			failed.onlyThisTry = detail.Debug.Metadata["only_this_try"] == "true"
		}
	}
	return failed
}
