package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost"
)

// failing makes the next statements that write a table fail with an error of the server; the sequence counts also what is rolled back. when
// is the kind of trigger, so the moment of the failure.
func failing(t testing.TB, on execer, table, when, code string) (arm func(times int), failed func() int) {
	t.Helper()
	run(t, on, "CREATE SEQUENCE failures", fmt.Sprintf(`
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('public.failures') <= (SELECT n FROM public.allowed) THEN
				RAISE EXCEPTION 'could not serialize, as it were' USING ERRCODE = '%s';
			END IF;
			RETURN NEW;
		END $$`, code),
		"CREATE TABLE allowed (n int NOT NULL)", "INSERT INTO allowed VALUES (0)",
		fmt.Sprintf(when, "fail_now", table))
	return func(times int) {
			run(t, on, fmt.Sprintf("UPDATE allowed SET n = %d", times), "ALTER SEQUENCE failures RESTART")
		}, func() int {
			return read[int](t, on, "SELECT least(CASE WHEN is_called THEN last_value ELSE 0 END, n)::int FROM failures, allowed")
		}
}

const (
	atTheWrite  = "CREATE TRIGGER %s BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION fail()"
	atTheCommit = "CREATE CONSTRAINT TRIGGER %s AFTER INSERT OR UPDATE ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()"
)

// What the server asks to be repeated says nothing about the lease. It must be repeated inside, as often as it takes, and happen once.
func TestWhatTheServerAsksToBeRepeatedIsRepeated(t *testing.T) {
	for _, code := range []string{"40001", "40P01"} {
		for moment, when := range map[string]string{"write": atTheWrite, "commit": atTheCommit} {
			t.Run(code+" at the "+moment, func(t *testing.T) {
				store, pool := openStore(t)
				arm, failed := failing(t, pool, "fencepost_leases", when, code)
				const times = 3
				try := func(what string, op func() error) {
					t.Helper()
					arm(times)
					if err := op(); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					if n := failed(); n != times {
						t.Errorf("%s: failed %d times, want %d: the test tests nothing", what, n, times)
					}
				}
				var token fencepost.Token
				try("create", func() error {
					g, err := store.Acquire(t.Context(), request("job", long))
					token = g.Token
					return err
				})
				try("renew", func() error { return renew(t.Context(), store, token) })
				try("want", func() error { return second(store.Want(t.Context(), "job")) })
				try("release", func() error {
					out, err := store.Release(t.Context(), token)
					if err == nil && (!out.Changed || !out.Wanted) {
						err = fmt.Errorf("%+v", out)
					}
					return err
				})
				try("acquire", func() error {
					g, err := store.Acquire(t.Context(), request("job", long))
					token = g.Token
					return err
				})
				try("preempt", func() error {
					g, err := store.Preempt(t.Context(), fencepost.PreemptRequest{Name: "job", Fence: token.Fence, Owner: "operator", TTL: long})
					token = g.Token
					return err
				})
				if token.Fence != 3 {
					t.Errorf("fence %d, want 3", token.Fence)
				}
				if n := read[int](t, pool, "SELECT count(*)::int FROM fencepost_events"); n != 4 {
					t.Errorf("%d events, want acquired, released, acquired, preempted", n)
				}
			})
		}
	}
}

func TestAFencedWriteThatIsRepeatedHappensOnce(t *testing.T) {
	for _, code := range []string{"40001", "40P01"} {
		for moment, when := range map[string]string{"write": atTheWrite, "commit": atTheCommit} {
			t.Run(code+" at the "+moment, func(t *testing.T) {
				store, pool := openStore(t)
				run(t, pool, "CREATE TABLE work (n int NOT NULL)", "INSERT INTO work VALUES (0)")
				arm, failed := failing(t, pool, "work", when, code)
				token := acquire(t, store, "job", long).Token
				arm(3)
				if n, err := store.Exec(t.Context(), token, "UPDATE work SET n = n + 1"); n != 1 || err != nil {
					t.Errorf("%d rows, %v", n, err)
				}
				if failed() != 3 {
					t.Errorf("failed %d times", failed())
				}
				arm(3)
				calls := 0
				err := store.Tx(t.Context(), token, func(tx pgx.Tx) error {
					calls++
					_, err := tx.Exec(t.Context(), "UPDATE work SET n = n + 1")
					return err
				})
				if err != nil || calls != 4 {
					t.Errorf("%d calls, %v", calls, err)
				}
				if n := read[int](t, pool, "SELECT n FROM work"); n != 2 {
					t.Errorf("two writes were reported and %d are there", n)
				}
				// A failure that does not end is reported as what it is, when the caller's time is over, and not as a loss.
				arm(1_000_000)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				for what, err := range map[string]error{
					"exec": second(store.Exec(ctx, token, "UPDATE work SET n = n + 1")),
					"tx": store.Tx(ctx, token, func(tx pgx.Tx) error {
						_, err := tx.Exec(ctx, "UPDATE work SET n = n + 1")
						return err
					}),
				} {
					if err == nil || errors.Is(err, fencepost.ErrStale) {
						t.Errorf("%s: %v", what, err)
					}
				}
				if n := read[int](t, pool, "SELECT n FROM work"); n != 2 {
					t.Errorf("%d writes are there", n)
				}
				if err := store.Check(t.Context(), token); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
