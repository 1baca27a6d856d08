package labclock

import (
	"sync"
	"testing"
	"time"

	"kstoretest"
)

func TestTimersFireInOrderWithTheClustersClock(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	lab := kstoretest.StartLab(t, kstoretest.LabOptions{Components: []string{"apiserver"}, Start: start, Patience: 10 * time.Minute})
	clock := New(lab)
	if now := clock.Now(); !now.Equal(start) {
		t.Fatalf("%v", now)
	}
	var mu sync.Mutex
	var seen []string
	note := func(what string) {
		at := what + " after " + clock.Since(start).String()
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, at)
	}
	ticker := clock.NewTicker(20 * time.Minute)
	go func() {
		for range ticker.C() {
			note("tick")
		}
	}()
	clock.AfterFunc(30*time.Minute, func() {
		note("function")
		// A timer of a timer.
		clock.AfterFunc(5*time.Minute, func() { note("again") })
	})
	stopped, moved := clock.NewTimer(10*time.Minute), clock.NewTimer(10*time.Minute)
	if !stopped.Stop() || stopped.Stop() {
		t.Error("a timer is active until it is stopped")
	}
	if !moved.Reset(50 * time.Minute) {
		t.Error("it was active")
	}
	lab.Advance(t, 45*time.Minute)
	mu.Lock()
	wanted := []string{"tick after 20m0s", "function after 30m0s", "again after 35m0s", "tick after 40m0s"}
	if len(seen) != len(wanted) {
		t.Fatalf("%v", seen)
	}
	for i := range wanted {
		if seen[i] != wanted[i] {
			t.Errorf("%v", seen)
		}
	}
	mu.Unlock()
	select {
	case <-stopped.C():
		t.Error("a stopped timer fires")
	case <-moved.C():
		t.Error("a timer fires before its time")
	default:
	}
	ticker.Stop()
	lab.Advance(t, 5*time.Minute)
	if at := (<-moved.C()).Sub(start); at != 50*time.Minute {
		t.Errorf("%v", at)
	}
	slept := make(chan time.Duration)
	go func() {
		clock.Sleep(time.Hour)
		slept <- clock.Since(start)
	}()
	for _, next := clock.read(); next.IsZero(); _, next = clock.read() {
		time.Sleep(time.Millisecond)
	}
	lab.Advance(t, 2*time.Hour)
	if at := <-slept; at != 110*time.Minute {
		t.Errorf("%v", at)
	}
}
