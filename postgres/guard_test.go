package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/postgres"
)

var snapshotLevels = []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable}

// A transaction with one snapshot that looks late sees the lease as it was: it must never be told of a loss for that reason, and must never
// miss a takeover.
func TestALateGuard(t *testing.T) {
	type ground struct {
		store *postgres.Store
		tx    pgx.Tx
	}
	// open begins a transaction whose snapshot is taken before what the test does next.
	open := func(t *testing.T, level pgx.TxIsoLevel) ground {
		store, pool := openStore(t)
		tx := begin(t, pool, pgx.TxOptions{IsoLevel: level})
		run(t, tx, "SELECT 1 FROM fencepost_events")
		return ground{store, tx}
	}
	wantFailure := func(t *testing.T, err error) {
		t.Helper()
		if errors.Is(err, fencepost.ErrStale) || !errors.Is(err, fencepost.ErrBusy) || code(err) != "40001" {
			t.Errorf("got %v, want a serialization failure", err)
		}
	}
	raising := func(t *testing.T, tx pgx.Tx, token fencepost.Token) error {
		batch := &pgx.Batch{}
		postgres.QueueGuard(batch, token)
		return postgres.Refused(tx.SendBatch(t.Context(), batch).Close())
	}
	for _, level := range snapshotLevels {
		t.Run(string(level), func(t *testing.T) {
			t.Run("AfterARenewalOfALiveLease", func(t *testing.T) {
				store, pool := openStore(t)
				token := acquire(t, store, "job", long).Token
				tx := begin(t, pool, pgx.TxOptions{IsoLevel: level})
				run(t, tx, "SELECT 1 FROM fencepost_events")
				if err := renew(t.Context(), store, token); err != nil {
					t.Fatal(err)
				}
				if err := postgres.Guard(t.Context(), tx, token); err != nil {
					t.Errorf("the holder is refused: %v", err)
				}
				// The lock is on the newest version: a takeover has to wait.
				expire(t, pool, "job")
				_, err := store.Acquire(t.Context(), request("job", long))
				wantHeld(t, err, true)
			})
			t.Run("AfterTheEndThatTheSnapshotShows", func(t *testing.T) {
				for name, look := range map[string]func(*testing.T, pgx.Tx, fencepost.Token) error{
					"Guard": func(t *testing.T, tx pgx.Tx, token fencepost.Token) error {
						return postgres.Guard(t.Context(), tx, token)
					},
					"QueueGuard": raising,
				} {
					t.Run(name, func(t *testing.T) {
						store, pool := openStore(t)
						first := acquire(t, store, "job", 5*time.Second)
						tx := begin(t, pool, pgx.TxOptions{IsoLevel: level})
						run(t, tx, "SELECT 1 FROM fencepost_events")
						eventually(t, "the end that the snapshot shows", func() bool {
							if err := renew(t.Context(), store, first.Token); err != nil {
								t.Fatal(err)
							}
							return inspect(t, store, "job").RenewedAt.After(first.LeasedUntil)
						})
						err := look(t, tx, first.Token)
						if errors.Is(err, fencepost.ErrStale) || code(err) != "40001" {
							t.Errorf("got %v, want a serialization failure", err)
						}
					})
				}
			})
			t.Run("AfterTheFirstAcquisition", func(t *testing.T) {
				g := open(t, level)
				wantFailure(t, postgres.Guard(t.Context(), g.tx, acquire(t, g.store, "job", long).Token))
			})
			t.Run("AfterATakeover", func(t *testing.T) {
				store, pool := openStore(t)
				token := acquire(t, store, "job", long).Token
				tx := begin(t, pool, pgx.TxOptions{IsoLevel: level})
				run(t, tx, "SELECT 1 FROM fencepost_events")
				expire(t, pool, "job")
				acquire(t, store, "job", long)
				wantFailure(t, postgres.Guard(t.Context(), tx, token))
			})
			t.Run("OfANameThatNeverWas", func(t *testing.T) {
				g := open(t, level)
				wantStale(t, postgres.Guard(t.Context(), g.tx, fencepost.Token{Name: "never", Owner: "o", Fence: 1}), fencepost.ReasonUnknownName)
				if err := g.tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, found, err := g.store.Inspect(t.Context(), "never"); found || err != nil {
					t.Errorf("the look made a lease: %v, %v", found, err)
				}
			})
		})
	}
}

// A paused process must not hold the lease for ever, and a session that allows less idleness than the lease lasts keeps its limit.
func TestTxLimitsHowLongItsTransactionIdles(t *testing.T) {
	store, pool := openStore(t)
	token := acquire(t, store, "job", 90*time.Second).Token
	limit := func(on interface {
		Tx(context.Context, fencepost.Token, func(pgx.Tx) error, ...pgx.TxOptions) error
	}) (limit string) {
		if err := on.Tx(t.Context(), token, func(tx pgx.Tx) error {
			limit = read[string](t, tx, "SHOW idle_in_transaction_session_timeout")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return limit
	}
	if got := limit(store); got != "90s" {
		t.Errorf("limited to %s, want the TTL", got)
	}
	if got := read[string](t, pool, "SHOW idle_in_transaction_session_timeout"); got != "0" {
		t.Errorf("the limit outlived the transaction: %s", got)
	}
	strict, err := postgres.Open(t.Context(), withParameter(t, pool.Config().ConnString(), "idle_in_transaction_session_timeout", "700ms"))
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	if got := limit(strict); got != "700ms" {
		t.Errorf("limited to %s, the session allows 700ms", got)
	}
}

// Two databases, or a replica that was promoted too early, may have granted the same number to different owners.
func TestTheSameFenceOfAnotherOwnerIsRefused(t *testing.T) {
	store, pool := openStore(t)
	run(t, pool, "CREATE TABLE work (done boolean NOT NULL)", "INSERT INTO work VALUES (false)")
	token := acquire(t, store, "job", long).Token
	token.Owner += "-of-the-lost-primary"
	_, err := store.Exec(t.Context(), token, "UPDATE work SET done = true")
	wantStale(t, err, fencepost.ReasonNotGranted)
	err = store.Tx(t.Context(), token, func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "UPDATE work SET done = true"); return err })
	wantStale(t, err, fencepost.ReasonNotGranted)
	wantStale(t, store.Guard(t.Context(), begin(t, pool, pgx.TxOptions{}), token), fencepost.ReasonNotGranted)
	wantStale(t, renew(t.Context(), store, token), fencepost.ReasonNotGranted)
	if read[bool](t, pool, "SELECT done FROM work") {
		t.Error("written all the same")
	}
}
