// Callers that wait for the answer of one unary call before they send the next: so many of them share so many
// connections for so long. Messages are bytes: a part that is the same in each call, and what each call appends to it.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const path, workPath = "/timerd.v1.TimerService/", "/timerd.v1.WorkService/"

// Of all requests that are made here, and of the answer to Schedule.
const requestIDField, taskField, fireTimeField, answeredTaskField = 2, 3, 5, 1

// Of ReceiveResponse, ReceivedTask and FinishRequest.
const receivedField, tokenField, finishedField, actionField, ack = 1, 3, 2, 3, 1

type plain struct{}

func (plain) Name() string { return "proto" }

func (plain) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (plain) Unmarshal(raw []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), raw...)
	return nil
}

type phase struct {
	Method   string  `json:"method"`
	Calls    int     `json:"calls"`
	Tasks    int     `json:"tasks"`
	Failed   int     `json:"failed"`
	Seconds  float64 `json:"seconds"`
	P50Ms    float64 `json:"p50_ms"`
	P99Ms    float64 `json:"p99_ms"`
	LastWord string  `json:"last_word,omitempty"`
}

type caller struct {
	connection *grpc.ClientConn
	waits      []time.Duration
	ids        []string
	tasks      int
	failed     int
	said       error
}

func (c *caller) call(method string, request []byte) []byte { return c.invoke(path+method, request) }

func (c *caller) invoke(method string, request []byte) []byte {
	var reply []byte
	began := time.Now()
	err := c.connection.Invoke(context.Background(), method, &request, &reply, grpc.ForceCodec(plain{}))
	c.waits = append(c.waits, time.Since(began))
	if err != nil {
		c.failed, c.said = c.failed+1, err
	}
	return reply
}

func main() {
	target := flag.String("target", "", "HOST:PORT")
	inFlight := flag.Int("in-flight", 1, "callers")
	connections := flag.Int("connections", 1, "that they share")
	seconds := flag.Float64("seconds", 3, "for how long tasks are scheduled")
	schedule := flag.String("schedule", "", "ScheduleRequest without fire_time, in hex")
	from := flag.Int64("from", 0, "first second of the fire times")
	span := flag.Int64("span", 3600, "seconds over which they lie")
	then := flag.String("then", "", "what is done with the tasks after that, with each once: Cancel, Reschedule or Receive")
	more := flag.String("then-message", "", "its request without the task, in hex")
	flag.Parse()
	callers := make([]*caller, *inFlight)
	lines := make([]*grpc.ClientConn, *connections)
	for i := range lines {
		lines[i] = must(grpc.NewClient(*target, grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	for i := range callers {
		callers[i] = &caller{connection: lines[i%len(lines)]}
	}
	message := must(hex.DecodeString(*schedule))
	warm(callers)
	tell(map[string]bool{"ready": true})
	until := time.Now().Add(time.Duration(*seconds * float64(time.Second)))
	scheduled := run(callers, "Schedule", func(c *caller) {
		for time.Now().Before(until) {
			reply := c.call("Schedule", due(message, *from+rand.Int64N(*span), rand.Int64N(1000)))
			if *then != "" {
				c.ids = append(c.ids, idOf(reply))
			}
		}
	})
	tell(scheduled)
	if *then == "" {
		return
	}
	rest := must(hex.DecodeString(*more))
	if *then == "Receive" {
		tell(received(callers, rest, int64(scheduled.Calls)))
		return
	}
	tell(run(callers, *then, func(c *caller) {
		for _, id := range c.ids {
			c.call(*then, field(identified(rest), taskField, []byte(id)))
		}
	}))
}

// Each caller takes some tasks, finishes them, and asks again, until all have come.
func received(callers []*caller, request []byte, count int64) phase {
	var left atomic.Int64
	left.Store(count)
	return run(callers, "Receive, Finish", func(c *caller) {
		for left.Load() > 0 {
			finish := []byte{actionField << 3, ack}
			tokens := each(c.invoke(workPath+"Receive", request), receivedField)
			for _, task := range tokens {
				finish = field(finish, finishedField, each(task, tokenField)[0])
			}
			if len(tokens) > 0 {
				c.invoke(workPath+"Finish", finish)
			}
			c.tasks += len(tokens)
			left.Add(-int64(len(tokens)))
			if c.failed > 0 {
				return
			}
		}
	})
}

// The values of a field of bytes, of a message whose other fields are bytes or numbers.
func each(message []byte, number int) (values [][]byte) {
	for len(message) > 0 {
		tag, read := binary.Uvarint(message)
		value, more := binary.Uvarint(message[read:])
		message = message[read+more:]
		if tag&7 != 2 {
			continue
		}
		if int(tag>>3) == number {
			values = append(values, message[:value])
		}
		message = message[value:]
	}
	return values
}

// Connections are there before the clock runs.
func warm(callers []*caller) {
	run(callers, "", func(c *caller) { c.call("GetServerInfo", nil) })
	for _, c := range callers {
		c.waits, c.failed = nil, 0
	}
}

func run(callers []*caller, method string, work func(*caller)) phase {
	var all sync.WaitGroup
	began := time.Now()
	for _, c := range callers {
		c.waits, c.failed, c.tasks = nil, 0, 0
		all.Add(1)
		go func() {
			defer all.Done()
			work(c)
		}()
	}
	all.Wait()
	found := phase{Method: method, Seconds: time.Since(began).Seconds()}
	var waits []time.Duration
	for _, c := range callers {
		waits = append(waits, c.waits...)
		found.Failed += c.failed
		found.Tasks += c.tasks
		if c.said != nil {
			found.LastWord = c.said.Error()
		}
	}
	sort.Slice(waits, func(i, j int) bool { return waits[i] < waits[j] })
	found.Calls = len(waits)
	if len(waits) > 0 {
		found.P50Ms, found.P99Ms = ms(waits[len(waits)/2]), ms(waits[len(waits)*99/100])
	}
	return found
}

func ms(wait time.Duration) float64 { return float64(wait.Microseconds()) / 1000 }

var commands = bufio.NewReader(os.Stdin)

// Goes on when a line comes: until then whoever reads takes the figures of the server.
func tell(found any) {
	fmt.Println(string(must(json.Marshal(found))))
	if _, err := commands.ReadString('\n'); err != nil {
		os.Exit(0)
	}
}

func due(message []byte, second, milli int64) []byte {
	stamp := binary.AppendUvarint([]byte{1 << 3}, uint64(second))
	stamp = binary.AppendUvarint(append(stamp, 2<<3), uint64(milli*1_000_000))
	return field(identified(message), fireTimeField, stamp)
}

// A call of its own.
func identified(message []byte) []byte {
	return field(message, requestIDField, fmt.Appendf(nil, "%016x%08x", rand.Uint64(), rand.Uint32()))
}

func field(message []byte, number int, value []byte) []byte {
	made := make([]byte, 0, len(message)+len(value)+8)
	made = append(made, message...)
	made = binary.AppendUvarint(made, uint64(number)<<3|2)
	made = binary.AppendUvarint(made, uint64(len(value)))
	return append(made, value...)
}

// The answer to Schedule begins with it.
func idOf(reply []byte) string {
	if len(reply) < 2 || reply[0] != answeredTaskField<<3|2 {
		return ""
	}
	length, read := binary.Uvarint(reply[1:])
	return string(reply[1+read : 1+read+int(length)])
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}
