package timerd

import (
	"encoding/json"
	"time"
)

// EndedContentType is that of a task that was made by the end of another one.
const EndedContentType = "application/vnd.timerd.ended+json"

// EndedTask is a task that was scheduled with OnEnd, as the handler of that queue learns of it.
type EndedTask struct {
	Outcome     string            `json:"outcome"` // "ACKED", "DEAD", "EXPIRED", "CANCELLED" or "PURGED"
	ID          string            `json:"task_id"`
	DeliveryID  string            `json:"delivery_id"` // it tells two ends of a task apart that was redriven
	Queue       string            `json:"queue"`
	Key         string            `json:"key"`
	OrderingKey string            `json:"ordering_key"`
	Labels      map[string]string `json:"labels"`
	FireTime    time.Time         `json:"fire_time"`
	EndTime     time.Time         `json:"end_time"`
	Attempt     int               `json:"attempt"`    // how many deliveries it had
	LastError   string            `json:"last_error"` // of its last failed attempt; empty where none has failed
}

// Ended is the task whose end has made this one (NewTask.OnEnd); nil where no end has. A payload that cannot be read is an error.
func (t *Task) Ended() (*EndedTask, error) {
	if t.ContentType != EndedContentType {
		return nil, nil
	}
	ended := new(EndedTask)
	if err := json.Unmarshal(t.Payload, ended); err != nil {
		return nil, err
	}
	return ended, nil
}
