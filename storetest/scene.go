package storetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
)

const (
	shortestScene = 250 * time.Millisecond
	longestScene  = 8 * time.Second
	// attempt bounds one try of the successor while a fenced write keeps it out.
	attempt = 400 * time.Millisecond
)

// scene is one interleaving played with one way to write: a holder in the middle of its write, and a successor.
type scene struct {
	*testing.T
	job
	il  *interleaving
	way way
	ttl time.Duration

	ctx       context.Context
	token     fencepost.Token // the holder's
	paused    chan struct{}   // closed when the holder is in the middle of its write
	pauseOnce sync.Once
	resumed   chan struct{} // closed when it may go on
}

// pause is called by the holder's transaction. A transaction that is repeated does not pause again.
func (s *scene) pause() error {
	s.pauseOnce.Do(func() { close(s.paused) })
	select {
	case <-s.resumed:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// play reports false when the lease expired before the holder got to write.
func (s *scene) play() bool {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*patience)
	defer cancel()
	s.ctx, s.paused, s.resumed = ctx, make(chan struct{}), make(chan struct{})
	ttl := s.ttl
	if s.il.release || s.il.preempt {
		ttl = long
	}
	grant, err := s.Store().Acquire(ctx, fencepost.AcquireRequest{Name: s.name, Owner: "holder", Holder: "A", TTL: ttl})
	if err != nil {
		s.Fatalf("the holder's acquisition: %v", err)
	}
	s.token = grant.Token

	unblock := func() {}
	if s.il.block != nil {
		unblock = s.il.block(s)
	}
	done := make(chan error, 1)
	go func() { done <- s.way.run(s) }()
	if early, err := s.awaitMiddle(done); early {
		unblock()
		if errors.Is(err, fencepost.ErrStale) || errors.Is(err, errNoRow) {
			return false
		}
		s.Fatalf("the write ended before it could be interrupted: %v", err)
	}

	wantStale := s.way.naive != nil && s.way.naive.Stale(s.il.name, s.level)
	s.lose(wantStale)
	granted := s.succeed(wantStale)
	close(s.resumed)
	unblock()
	select {
	case err = <-done:
	case <-ctx.Done():
		s.Fatal("the write does not end")
	}
	if !granted {
		until(s.T, "the successor to be granted the lease after the write has ended", func() bool {
			if s.il.release {
				s.lose(false)
			}
			granted, _ := s.take(patience)
			return granted
		})
	}
	s.judge(granted, err, wantStale)
	return true
}

// awaitMiddle waits until the holder is in the middle of its write: it has paused, or the server says that it waits for a lock.
func (s *scene) awaitMiddle(done <-chan error) (early bool, err error) {
	s.Helper()
	if s.il.block != nil && s.OneWriter {
		return false, nil // it waits for its turn to write anything, and no server tells
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.paused:
			return false, nil
		case err := <-done:
			return true, err
		case <-s.ctx.Done():
			s.Fatal("the write was to be blocked, and the server shows no session that waits")
		case <-tick.C:
		}
		if s.il.block != nil {
			waiting, err := s.Waiting(s.ctx, s.marker())
			if err != nil {
				s.Fatal(err)
			}
			if waiting {
				return false, nil
			}
		}
	}
}

// lose lets the holder lose its lease, except for what a successor does itself. A release may be kept out by the write in
// progress: that is as good.
func (s *scene) lose(patient bool) {
	s.Helper()
	switch {
	case s.il.release:
		limit := attempt
		if patient {
			limit = patience
		}
		ctx, cancel := context.WithTimeout(s.ctx, limit)
		defer cancel()
		if _, err := s.Store().Release(ctx, s.token); err != nil && patient {
			s.Fatalf("the holder's release: %v", err)
		}
	case !s.il.preempt:
		awaitExpiry(s.T, s.Store(), s.name)
	}
}

// succeed lets the successor try while the holder is in the middle of its write. Where a stale write is expected it must be granted;
// elsewhere two refusals, or one try that had to be given up, are enough to know that it is kept out.
func (s *scene) succeed(patient bool) (granted bool) {
	s.Helper()
	limit := attempt
	if patient {
		limit = patience
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for refusals := 1; ; refusals++ {
		granted, err := s.take(limit)
		switch {
		case granted:
			return true
		case errors.Is(err, fencepost.ErrStale), errors.Is(err, fencepost.ErrInvalid):
			s.Fatalf("the successor: %v", err)
		case !patient && (refusals == 2 || errors.Is(err, context.DeadlineExceeded)):
			return false
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			s.Fatalf("the successor was to be granted the lease: %v", err)
		}
	}
}

// take is one try of the successor. Every try carries the same owner token: one that was given up and is applied later
// is recognised by the next.
func (s *scene) take(limit time.Duration) (granted bool, err error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	var grant fencepost.Grant
	if s.il.preempt {
		grant, err = s.Store().Preempt(ctx, fencepost.PreemptRequest{
			Name: s.name, Fence: s.token.Fence, Owner: "successor", Holder: "B", TTL: long, Actor: "operator", Reason: "test",
		})
		if errors.Is(err, fencepost.ErrStale) {
			info, _, lookErr := s.Store().Inspect(s.ctx, s.name)
			if lookErr == nil && info.Owner == "successor" {
				grant.Token.Fence, err = info.Fence, nil
			}
		}
	} else {
		grant, err = s.Store().Acquire(ctx, fencepost.AcquireRequest{Name: s.name, Owner: "successor", Holder: "B", TTL: long})
	}
	if err == nil && grant.Token.Fence != s.token.Fence+1 {
		s.Errorf("the successor was granted fence %d after fence %d", grant.Token.Fence, s.token.Fence)
	}
	return err == nil, err
}

// judge compares what the database has in the end with what was reported and with what may be.
func (s *scene) judge(granted bool, err error, wantStale bool) {
	s.Helper()
	committed := s.status(s.T, 0) == "completed"
	if s.il.insert {
		committed = s.text(s.T, render("SELECT note FROM reports WHERE id = {id}", s.token, s.id)) != ""
	}
	if s.way.naive != nil {
		if stale := granted && committed; stale != wantStale {
			s.Errorf("a stale write committed: %v, it is said to: %v (successor granted in between %v, write committed %v, its error: %v)",
				stale, wantStale, granted, committed, err)
		}
		return
	}
	switch {
	case granted && committed:
		s.Errorf("fence %d was granted and committed, and after that a write under fence %d was committed", s.token.Fence+1, s.token.Fence)
	case committed != (err == nil):
		s.Errorf("the write reports %v; committed: %v", err, committed)
	case errors.Is(err, fencepost.ErrUnknown):
		s.Errorf("the outcome is known, and was reported as %v", err)
	case granted && s.way.whole && !errors.Is(err, fencepost.ErrStale):
		s.Errorf("refused with %v; want ErrStale", err)
	case !granted && !committed && !s.mayFail(err):
		s.Errorf("nobody else was granted the lease, and the write of its holder failed: %v", err)
	}
	if s.il.name == TwoStatements && s.status(s.T, 0) != s.status(s.T, 1) {
		s.Errorf("half of the transaction was committed: %q and %q", s.status(s.T, 0), s.status(s.T, 1))
	}
	if s.OneWriter && committed && !s.il.insert && s.il.name != SlowWrite {
		seen := s.text(s.T, render("SELECT result FROM runs WHERE id = {id}", s.token, s.id))
		if seen != strconv.FormatInt(s.token.Fence, 10) {
			s.Errorf("the write of fence %d was committed when the fence was %s", s.token.Fence, seen)
		}
	}
}

// mayFail says whether a holder that lost its lease without a successor may be refused: where its check comes after the wait.
func (s *scene) mayFail(err error) bool {
	late := s.way.exec || s.OneWriter && s.il.block != nil
	return s.il.mayFail || late && errors.Is(err, fencepost.ErrStale)
}
