// Package labclock is a k8s.io/utils/clock of a lab's cluster, for operators whose clock can be injected.
//
// Its timers are waits at the server: the cluster's clock stops at each, in order with the cluster's own timers, and goes on when the
// test's process, in which the operator runs, has nothing to do.
package labclock

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"kstoretest"
)

// Agent is the name of the test's process as a client of the lab.
const Agent = "kstoretest-clock"

// How long the server may take to know of a wait, and how often it is asked, in real time.
const (
	registerTimeout  = 10 * time.Second
	registerInterval = time.Millisecond
)

var _ clock.WithTickerAndDelayedExecution = (*Clock)(nil)

// Clock is the clock of a cluster. Made by [New]; it may be used by several goroutines.
type Clock struct {
	lab *kstoretest.Lab

	mu sync.Mutex
	// The newest time that was read, which is the answer when the cluster has ended.
	newest time.Time
}

// New returns the clock of a lab's cluster, or of a fork. From now on the lab's clock waits until this process is quiet. It panics if the
// lab cannot be asked.
func New(lab *kstoretest.Lab) *Clock {
	body := map[string]any{"match": map[string]string{"agent": Agent}, "process": os.Getpid()}
	if err := lab.Call(http.MethodPut, "/clients/"+Agent, body, nil); err != nil {
		panic("labclock: " + err.Error())
	}
	return &Clock{lab: lab}
}

// Now returns the cluster's time; the last one if the cluster has ended.
func (c *Clock) Now() time.Time {
	now, _ := c.read()
	return now
}

// read returns the cluster's time, and the earliest time for which a client waits.
func (c *Clock) read() (now, next time.Time) {
	var read struct {
		Time time.Time
		Next struct{ Time time.Time }
	}
	err := c.lab.Call(http.MethodGet, "/clock", nil, &read)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.newest = read.Time
	}
	return c.newest, read.Next.Time
}

// Since returns the time of the cluster that has passed since a time.
func (c *Clock) Since(earlier time.Time) time.Duration { return c.Now().Sub(earlier) }

// Sleep returns when so much of the cluster's time has passed, or the cluster has ended.
func (c *Clock) Sleep(d time.Duration) {
	_ = c.wait(context.Background(), c.Now().Add(d))
}

// After returns the channel of a new timer.
func (c *Clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

// Tick returns the channel of a new ticker, which never ends.
func (c *Clock) Tick(d time.Duration) <-chan time.Time { return c.NewTicker(d).C() }

// NewTimer returns a timer that fires once, when so much of the cluster's time has passed.
func (c *Clock) NewTimer(d time.Duration) clock.Timer {
	fired := make(chan time.Time, 1)
	timer := &timer{clock: c, c: fired}
	timer.fire = func(now time.Time) {
		select {
		case fired <- now:
		default:
		}
	}
	timer.start(d)
	return timer
}

// AfterFunc runs a function in a goroutine of its own when so much of the cluster's time has passed.
func (c *Clock) AfterFunc(d time.Duration, f func()) clock.Timer {
	timer := &timer{clock: c, fire: func(time.Time) { f() }}
	timer.start(d)
	return timer
}

// NewTicker returns a ticker that fires after each period of the cluster's time. A tick that nobody takes is dropped, as by time.Ticker.
func (c *Clock) NewTicker(d time.Duration) clock.Ticker {
	if d <= 0 {
		panic("labclock: a ticker needs a positive period")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ticks := make(chan time.Time, 1)
	next := c.Now().Add(d)
	begun := c.begin(ctx, next)
	go func() {
		for {
			if <-begun != nil {
				return
			}
			now := c.Now()
			for !next.After(now) {
				next = next.Add(d)
			}
			// The next wait is known before the tick is taken, so that no tick is late.
			begun = c.begin(ctx, next)
			select {
			case ticks <- now:
			default:
			}
		}
	}()
	return &ticker{c: ticks, cancel: cancel}
}

// wait returns when the cluster's time is there.
func (c *Clock) wait(ctx context.Context, until time.Time) error {
	return c.lab.CallContext(ctx, http.MethodGet, "/clock/wait?until="+url.QueryEscape(until.UTC().Format(time.RFC3339Nano)), nil, nil)
}

// begin waits in a goroutine, and returns when the server knows of that: from then on the clock cannot pass the time. The channel has the
// end of the wait.
func (c *Clock) begin(ctx context.Context, until time.Time) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- c.wait(ctx, until) }()
	limit := time.Now().Add(registerTimeout)
	for ctx.Err() == nil && len(ended) == 0 && time.Now().Before(limit) {
		if now, next := c.read(); !now.Before(until) || (!next.IsZero() && !next.After(until)) {
			break
		}
		time.Sleep(registerInterval)
	}
	return ended
}

type ticker struct {
	c      <-chan time.Time
	cancel context.CancelFunc
}

func (t *ticker) C() <-chan time.Time { return t.c }

func (t *ticker) Stop() { t.cancel() }

type timer struct {
	clock *Clock
	c     chan time.Time
	fire  func(time.Time)

	mu sync.Mutex
	// Ends the wait; nil if the timer is not active.
	cancel context.CancelFunc
	starts int
}

func (t *timer) C() <-chan time.Time { return t.c }

// Stop keeps the timer from firing, and says whether it was active.
func (t *timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stop()
}

// Reset lets the timer fire after a duration from now, and says whether it was active.
func (t *timer) Reset(d time.Duration) bool {
	wasActive := t.Stop()
	t.start(d)
	return wasActive
}

func (t *timer) stop() bool {
	wasActive := t.cancel != nil
	if wasActive {
		t.cancel()
		t.cancel = nil
	}
	t.starts++
	return wasActive
}

func (t *timer) start(d time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	t.mu.Lock()
	t.stop()
	t.cancel = cancel
	start := t.starts
	t.mu.Unlock()
	ended := t.clock.begin(ctx, t.clock.Now().Add(d))
	go func() {
		defer cancel()
		if <-ended != nil {
			return
		}
		t.mu.Lock()
		isActive := t.cancel != nil && t.starts == start
		if isActive {
			t.cancel = nil
		}
		t.mu.Unlock()
		if isActive {
			t.fire(t.clock.Now())
		}
	}()
}
