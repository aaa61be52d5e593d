package storetest

import (
	"runtime"
	"time"

	"github.com/fencepost/fencepost"
)

func (f *fixture) want(name string, marked bool) {
	f.Helper()
	if got, err := f.Want(f.ctx(), name); err != nil || got != marked {
		f.Errorf("Want(%q) = %v, %v; want %v", name, got, err, marked)
	}
}

func (f *fixture) watch(name string) (wake <-chan struct{}, stop func()) {
	f.Helper()
	wake, stop, err := f.Store.(fencepost.Waker).Watch(f.ctx(), name)
	if err != nil {
		f.Fatalf("Watch(%q): %v", name, err)
	}
	return wake, stop
}

// wakes repeats a step that should wake, because single wake-ups may be lost, and drains the ones that were spurious.
func (f *fixture) wakes(wake <-chan struct{}, step func()) {
	f.Helper()
	for range 5 {
		for drained := false; !drained; {
			select {
			case <-wake:
			default:
				drained = true
			}
		}
		step()
		select {
		case <-wake:
			return
		case <-time.After(5 * time.Second):
		}
	}
	f.Error("five times in a row nobody was woken")
}

var wantTests = []test{
	{"MarksAHeldLeaseOnce", func(f *fixture) {
		g := f.acquire("job", long)
		f.want("job", true)
		if i := f.inspect("job"); !i.Wanted || i.Owner != g.Token.Owner || !i.LeasedUntil.Equal(g.LeasedUntil) {
			f.Errorf("row %+v; want it marked and nothing else", i)
		}
		f.unchanged("job", func() { f.want("job", false) })
		_, err := f.Acquire(f.ctx(), fencepost.AcquireRequest{Name: "job", Owner: f.owner(), TTL: long})
		if held := f.wantHeld(err, 1); !held.Wanted {
			f.Error("the refusal does not say that the lease is already wanted")
		}
	}},

	{"OthersNeedNoMark", func(f *fixture) {
		f.release(f.acquire("free", long).Token)
		f.acquireExpired("expired")
		for _, name := range []string{"unknown", "free", "expired"} {
			f.unchanged(name, func() { f.want(name, false) })
		}
	}},

	{"ARenewalKeepsTheMark", func(f *fixture) {
		g := f.acquire("job", long)
		f.want("job", true)
		f.wantRenewed(f.renewOne(g.Token), "job", g.LeasedUntil)
		if !f.inspect("job").Wanted {
			f.Error("the renewal forgot the waiters")
		}
		if out, err := f.Release(f.ctx(), g.Token); err != nil || !out.Changed || !out.Wanted {
			f.Errorf("Release = %+v, %v; want it to say that somebody waits", out, err)
		}
	}},

	{"ANewGrantIsNotMarked", func(f *fixture) {
		g := f.acquire("job", long)
		f.want("job", true)
		f.release(g.Token)
		g = f.acquire("job", short)
		if f.inspect("job").Wanted {
			f.Error("marked for waiters of the lease before")
		}
		f.want("job", true)
		f.awaitExpiry("job")
		f.acquire("job", long)
		if f.inspect("job").Wanted {
			f.Error("marked for waiters of the lease that was taken over")
		}
		f.want("job", true)
		if _, err := f.Preempt(f.ctx(), f.preemption("job", 3, long)); err != nil {
			f.Fatal(err)
		}
		if f.inspect("job").Wanted {
			f.Error("marked for waiters of the lease that was preempted")
		}
		f.want("job", true)
	}},
}

// wakeTests are for stores that are a fencepost.Waker.
var wakeTests = []test{
	{"AReleaseWakes", func(f *fixture) {
		wake, stop := f.watch("job")
		defer stop()
		f.wakes(wake, func() {
			g := f.acquire("job", long)
			f.want("job", true)
			f.release(g.Token)
		})
	}},

	{"APreemptionWakes", func(f *fixture) {
		wake, stop := f.watch("job")
		defer stop()
		f.wakes(wake, func() {
			g := f.acquire("job", long)
			f.want("job", true)
			if _, err := f.Preempt(f.ctx(), f.preemption("job", g.Token.Fence, 0)); err != nil {
				f.Fatal(err)
			}
		})
	}},

	{"EveryWatcherOfTheNameIsWoken", func(f *fixture) {
		const name = `it's "my" job, \ 100 % ☕`
		first, stopFirst := f.watch(name)
		defer stopFirst()
		second, stopSecond := f.watch(name)
		defer stopSecond()
		_, stopOther := f.watch("other")
		defer stopOther()
		step := func() {
			g := f.acquire(name, long)
			f.want(name, true)
			f.release(g.Token)
		}
		f.wakes(first, step)
		f.wakes(second, step)
		// One that has left does not keep the others from being woken.
		stopFirst()
		f.wakes(second, step)
	}},

	{"NobodyHasToWatch", func(f *fixture) {
		_, stop := f.watch("other")
		defer stop()
		for range 3 {
			g := f.acquire("job", long)
			f.want("job", true)
			f.release(g.Token)
		}
	}},

	{"StoppingFreesEverything", func(f *fixture) {
		_, stop := f.watch("job")
		_, stopAnother := f.watch("job")
		stop()
		before := runtime.NumGoroutine() // what the store keeps while there are watchers is running now
		for range 100 {
			_, stop := f.watch("job")
			stop()
			stop() // harmless
		}
		stopAnother()
		until(f.T, "the watchers' goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
	}},
}
