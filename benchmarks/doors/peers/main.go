// Callers of what people would use instead of timerd: each stores one task that is due in an hour or two, waits for the
// answer, and stores the next, for so long. What one answer promises is what the server was told to promise.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/beanstalkd/go-beanstalk"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

const payloadBytes, mostConnections = 200, 90

// Stores one task that is due so far ahead.
type store func(ctx context.Context, id string, ahead time.Duration, payload []byte) error

// A sorted set by due time and a hash of payloads, in one step.
const storeInRedis = `redis.call('HSET', KEYS[2], ARGV[1], ARGV[3]) redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])`

func inRedis(ctx context.Context, target string, connections int) []store {
	client := redis.NewClient(&redis.Options{Addr: target, PoolSize: connections})
	script := redis.NewScript(storeInRedis)
	return same(connections, func(ctx context.Context, id string, ahead time.Duration, payload []byte) error {
		due := time.Now().Add(ahead).UnixMilli()
		return ignoreNil(script.Run(ctx, client, []string{"due", "body"}, id, due, payload).Err())
	})
}

func ignoreNil(err error) error {
	if err == redis.Nil {
		return nil
	}
	return err
}

func inPostgres(ctx context.Context, target string, connections int) []store {
	url := fmt.Sprintf("postgres://timers@%s/postgres?sslmode=disable&pool_max_conns=%d", target, connections)
	pool := must(pgxpool.New(ctx, url))
	must(pool.Exec(ctx, `create table if not exists tasks (id text primary key, due_ms bigint not null, payload bytea not null);
		create index if not exists tasks_due on tasks (due_ms)`))
	return same(connections, func(ctx context.Context, id string, ahead time.Duration, payload []byte) error {
		_, err := pool.Exec(ctx, "insert into tasks values ($1, $2, $3)", id, time.Now().Add(ahead).UnixMilli(), payload)
		return err
	})
}

func inBeanstalkd(_ context.Context, target string, connections int) []store {
	stores := make([]store, connections)
	for i := range stores {
		connection := must(beanstalk.Dial("tcp", target))
		stores[i] = func(_ context.Context, _ string, ahead time.Duration, payload []byte) error {
			_, err := connection.Put(payload, 0, ahead.Round(time.Second), time.Minute)
			return err
		}
	}
	return stores
}

// The client has its own connections.
func same(connections int, one store) []store {
	stores := make([]store, connections)
	for i := range stores {
		stores[i] = one
	}
	return stores
}

var kinds = map[string]func(context.Context, string, int) []store{
	"redis": inRedis, "postgres": inPostgres, "beanstalkd": inBeanstalkd,
}

type found struct {
	Calls   int     `json:"calls"`
	Failed  int     `json:"failed"`
	Seconds float64 `json:"seconds"`
	P50Ms   float64 `json:"p50_ms"`
	P99Ms   float64 `json:"p99_ms"`
}

func main() {
	kind := flag.String("kind", "redis", "redis, postgres or beanstalkd")
	target := flag.String("target", "", "HOST:PORT")
	inFlight := flag.Int("in-flight", 1, "callers")
	seconds := flag.Float64("seconds", 3, "for how long")
	flag.Parse()
	ctx := context.Background()
	stores := kinds[*kind](ctx, *target, min(*inFlight, mostConnections))
	call(ctx, stores, len(stores), time.Now())
	fmt.Println("{}")
	must(bufio.NewReader(os.Stdin).ReadString('\n'))
	fmt.Println(string(must(json.Marshal(call(ctx, stores, *inFlight, time.Now().Add(time.Duration(*seconds*1e9)))))))
}

// At least one call of each, so that connections are there before the clock runs.
func call(ctx context.Context, stores []store, inFlight int, until time.Time) found {
	waits := make([][]time.Duration, inFlight)
	failed := make([]int, inFlight)
	var all sync.WaitGroup
	began := time.Now()
	for i := range inFlight {
		all.Add(1)
		go func() {
			defer all.Done()
			payload := make([]byte, payloadBytes)
			for first := true; first || time.Now().Before(until); first = false {
				id := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
				ahead := time.Hour + time.Duration(rand.Int64N(int64(time.Hour)))
				asked := time.Now()
				if stores[i%len(stores)](ctx, id, ahead, payload) != nil {
					failed[i]++
				}
				waits[i] = append(waits[i], time.Since(asked))
			}
		}()
	}
	all.Wait()
	return summed(waits, failed, time.Since(began))
}

func summed(waits [][]time.Duration, failed []int, took time.Duration) found {
	var every []time.Duration
	said := found{Seconds: took.Seconds()}
	for i, each := range waits {
		every = append(every, each...)
		said.Failed += failed[i]
	}
	sort.Slice(every, func(i, j int) bool { return every[i] < every[j] })
	said.Calls = len(every)
	said.P50Ms, said.P99Ms = ms(every[len(every)/2]), ms(every[len(every)*99/100])
	return said
}

func ms(wait time.Duration) float64 { return float64(wait.Microseconds()) / 1000 }

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}
