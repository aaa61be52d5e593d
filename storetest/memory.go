package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost"
)

// Memory is the reference: the protocol in plain Go under one mutex, to compare other stores with and to test what stands above
// stores. It is not a product: its leases end with the process, and nothing outside the process sees them.
//
// Its "database clock" is time.Now, so it works in a bubble of testing/synctest. It implements [fencepost.Store],
// [fencepost.Waker] and [FenceSetter].
type Memory struct {
	mu       sync.Mutex
	rows     map[string]*fencepost.LeaseInfo // Remaining is left 0 here and computed when a row is read
	events   []fencepost.Event
	watchers map[string]map[chan struct{}]struct{}
}

var (
	_ fencepost.Store = (*Memory)(nil)
	_ fencepost.Waker = (*Memory)(nil)
	_ FenceSetter     = (*Memory)(nil)
)

// NewMemory returns a reference store without leases.
func NewMemory() *Memory {
	return &Memory{
		rows:     map[string]*fencepost.LeaseInfo{},
		watchers: map[string]map[chan struct{}]struct{}{},
	}
}

// now has no monotonic reading, so that equal rows are equal structs.
func now() time.Time { return time.Now().UTC() }

// read returns the row as of at.
func (m *Memory) read(name string, at time.Time) (info fencepost.LeaseInfo, found bool) {
	row, found := m.rows[name]
	if !found {
		return fencepost.LeaseInfo{}, false
	}
	info = *row
	if !info.LeasedUntil.IsZero() {
		info.Remaining = max(info.LeasedUntil.Sub(at), 0)
	}
	return info, true
}

func (m *Memory) record(e fencepost.Event, at time.Time) {
	e.ID, e.At = int64(len(m.events)+1), at
	m.events = append(m.events, e)
}

// wake tells every watcher of name; one that has not taken its last wake-up yet needs no second.
func (m *Memory) wake(name string) {
	for c := range m.watchers[name] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// begin refuses what has ended before it began, as a driver does before it sends anything.
func (m *Memory) begin(ctx context.Context) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", fencepost.ErrUnavailable, err)
	}
	m.mu.Lock()
	return m.mu.Unlock, nil
}

// Acquire implements [fencepost.Store].
func (m *Memory) Acquire(ctx context.Context, r fencepost.AcquireRequest) (fencepost.Grant, error) {
	unlock, err := m.begin(ctx)
	if err != nil {
		return fencepost.Grant{}, err
	}
	defer unlock()
	at := now()
	info, found := m.read(r.Name, at)
	if found && info.State() == fencepost.StateHeld {
		if info.Owner != r.Owner {
			return fencepost.Grant{}, info.Refusal()
		}
		return fencepost.Grant{
			Token: fencepost.Token{Name: r.Name, Owner: r.Owner, Fence: info.Fence},
			TTL:   info.TTL, LeasedUntil: info.LeasedUntil, Remaining: info.Remaining,
		}, nil
	}
	fence, err := fencepost.NextFence(info.Fence)
	if err != nil {
		return fencepost.Grant{}, err
	}
	grant := fencepost.Grant{
		Token: fencepost.Token{Name: r.Name, Owner: r.Owner, Fence: fence},
		TTL:   r.TTL, LeasedUntil: at.Add(r.TTL), Remaining: r.TTL,
		TakenOver: found && info.State() == fencepost.StateExpired,
	}
	m.grant(grant, r.Holder, at)
	kind := fencepost.EventAcquired
	if grant.TakenOver {
		kind = fencepost.EventTakenOver
	}
	m.record(fencepost.Event{Lease: r.Name, Kind: kind, Fence: fence, Holder: r.Holder}, at)
	return grant, nil
}

func (m *Memory) grant(g fencepost.Grant, holder string, at time.Time) {
	m.rows[g.Token.Name] = &fencepost.LeaseInfo{
		Name: g.Token.Name, Owner: g.Token.Owner, Fence: g.Token.Fence, Holder: holder, TTL: g.TTL, LeasedUntil: g.LeasedUntil,
		AcquiredAt: at, RenewedAt: at,
	}
}

// Renew implements [fencepost.Store].
func (m *Memory) Renew(ctx context.Context, tokens []fencepost.Token) ([]fencepost.Renewal, error) {
	unlock, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	at := now()
	renewals := make([]fencepost.Renewal, len(tokens))
	for i, t := range tokens {
		info, found := m.read(t.Name, at)
		if err := t.Refusal(info, found); err != nil {
			renewals[i].Err = err
			continue
		}
		row := m.rows[t.Name]
		row.LeasedUntil, row.RenewedAt = at.Add(row.TTL), at
		renewals[i].LeasedUntil = row.LeasedUntil
	}
	return renewals, nil
}

// Release implements [fencepost.Store].
func (m *Memory) Release(ctx context.Context, t fencepost.Token) (fencepost.Released, error) {
	unlock, err := m.begin(ctx)
	if err != nil {
		return fencepost.Released{}, err
	}
	defer unlock()
	at := now()
	info, found := m.read(t.Name, at)
	if err := t.Refusal(info, found); err != nil {
		if err.(*fencepost.StaleError).Reason == fencepost.ReasonReleased {
			return fencepost.Released{}, nil
		}
		return fencepost.Released{}, err
	}
	row := m.rows[t.Name]
	row.LeasedUntil, row.Wanted = time.Time{}, false
	m.record(fencepost.Event{Lease: t.Name, Kind: fencepost.EventReleased, Fence: t.Fence, Holder: info.Holder}, at)
	if info.Wanted {
		m.wake(t.Name)
	}
	return fencepost.Released{Changed: true, Wanted: info.Wanted}, nil
}

// Preempt implements [fencepost.Store].
func (m *Memory) Preempt(ctx context.Context, r fencepost.PreemptRequest) (fencepost.Grant, error) {
	unlock, err := m.begin(ctx)
	if err != nil {
		return fencepost.Grant{}, err
	}
	defer unlock()
	at := now()
	info, found := m.read(r.Name, at)
	if !found || info.Fence != r.Fence {
		// Only the fence was presented, so an owner cannot be what is wrong.
		return fencepost.Grant{}, fencepost.Token{Name: r.Name, Owner: info.Owner, Fence: r.Fence}.Refusal(info, found)
	}
	fence, err := fencepost.NextFence(info.Fence)
	if err != nil {
		return fencepost.Grant{}, err
	}
	grant := fencepost.Grant{Token: fencepost.Token{Name: r.Name, Owner: r.Owner, Fence: fence}, TTL: r.TTL}
	if r.TTL > 0 {
		grant.LeasedUntil, grant.Remaining = at.Add(r.TTL), r.TTL
	}
	m.grant(grant, r.Holder, at)
	m.record(fencepost.Event{Lease: r.Name, Kind: fencepost.EventPreempted, Fence: fence, Holder: r.Holder, Actor: r.Actor, Reason: r.Reason}, at)
	if info.Wanted {
		m.wake(r.Name)
	}
	return grant, nil
}

// Check implements [fencepost.Store].
func (m *Memory) Check(ctx context.Context, t fencepost.Token) error {
	unlock, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return t.Refusal(m.read(t.Name, now()))
}

// Inspect implements [fencepost.Store].
func (m *Memory) Inspect(ctx context.Context, name string) (fencepost.LeaseInfo, bool, error) {
	unlock, err := m.begin(ctx)
	if err != nil {
		return fencepost.LeaseInfo{}, false, err
	}
	defer unlock()
	info, found := m.read(name, now())
	return info, found, nil
}

// List implements [fencepost.Store].
func (m *Memory) List(ctx context.Context, q fencepost.ListQuery) ([]fencepost.LeaseInfo, error) {
	unlock, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	at := now()
	var infos []fencepost.LeaseInfo
	for _, name := range slices.Sorted(maps.Keys(m.rows)) {
		if name > q.After && len(infos) < limit(q.Limit) {
			info, _ := m.read(name, at)
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// limit is the default of both queries.
func limit(n int) int {
	if n == 0 {
		return 1000
	}
	return n
}

// Want implements [fencepost.Store].
func (m *Memory) Want(ctx context.Context, name string) (bool, error) {
	unlock, err := m.begin(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	info, found := m.read(name, now())
	if !found || info.State() != fencepost.StateHeld || info.Wanted {
		return false, nil
	}
	m.rows[name].Wanted = true
	return true, nil
}

// Record implements [fencepost.Store].
func (m *Memory) Record(ctx context.Context, e fencepost.Event) error {
	unlock, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	m.record(e, now())
	return nil
}

// Events implements [fencepost.Store].
func (m *Memory) Events(ctx context.Context, q fencepost.EventQuery) ([]fencepost.Event, error) {
	unlock, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var events []fencepost.Event
	for _, e := range m.events {
		if e.ID > q.After && (q.Lease == "" || e.Lease == q.Lease) {
			events = append(events, e)
		}
	}
	if n := limit(q.Limit); len(events) > n {
		if q.Last {
			return events[len(events)-n:], nil
		}
		return events[:n], nil
	}
	return events, nil
}

// Watch implements [fencepost.Waker].
func (m *Memory) Watch(ctx context.Context, name string) (<-chan struct{}, func(), error) {
	unlock, err := m.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	c := make(chan struct{}, 1)
	if m.watchers[name] == nil {
		m.watchers[name] = map[chan struct{}]struct{}{}
	}
	m.watchers[name][c] = struct{}{}
	return c, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers[name], c)
		if len(m.watchers[name]) == 0 {
			delete(m.watchers, name)
		}
	}, nil
}

// SetFence implements [FenceSetter].
func (m *Memory) SetFence(ctx context.Context, name string, fence int64) error {
	unlock, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	row, found := m.rows[name]
	if !found || fence < row.Fence {
		return fmt.Errorf("no fence of %q can be raised to %d", name, fence)
	}
	row.Fence = fence
	return nil
}
