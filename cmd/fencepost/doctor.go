package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost"
)

//go:embed sql/*.sql
var statements embed.FS

// statement is the text of one file of the folder sql.
func statement(name string) string {
	text, err := statements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // the name is a constant of this program
	}
	return strings.TrimSpace(string(text))
}

func (a *app) doctorCommand() *cobra.Command {
	ttl := duration(fencepost.DefaultTTL)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether this database is safe for leases",
		Long: long(`Looks at what leases depend on: clock, time zone, isolation, read-only or standby, autocommit, rights, triggers, replication, pooler,
and the round trip against a TTL. Nothing is changed. A failure means that leases cannot work here or that their promise does not hold;
a warning, that something is slower, blinder or weaker than it could be.`, 0, exitUsage, exitUnavailable),
		Example: `  fencepost doctor --ttl 10s`,
		Args:    argsBetween(0, 0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fencepost.ValidateTTL(time.Duration(ttl), fencepost.DefaultMinTTL, fencepost.DefaultMaxTTL); err != nil {
				return err
			}
			e, err := a.place.engine()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*openTimeout)
			defer cancel()
			findings, err := e.diagnose(ctx)
			if err != nil {
				return cannotOpen(ctx, err)
			}
			link, err := linkAgainstTTL(ctx, e, time.Duration(ttl))
			if err != nil {
				return cannotOpen(ctx, err)
			}
			return a.diagnosed(append(findings, link))
		},
	}
	cmd.Flags().Var(&ttl, "ttl", "the TTL to compare the round trip with")
	return cmd
}

func (a *app) diagnosed(findings []fencepost.Finding) error {
	failures := 0
	for i, f := range findings {
		findings[i].Detail, findings[i].Advice = a.place.redact(f.Detail), a.place.redact(f.Advice)
		if f.Level == fencepost.LevelFailure {
			failures++
		}
	}
	err := a.out.print(struct {
		Safe     bool                `json:"safe"`
		Findings []fencepost.Finding `json:"findings"`
	}{failures == 0, findings}, func(w io.Writer) {
		for _, f := range findings {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Level, f.Check, harmless(f.Detail))
			if f.Advice != "" {
				fmt.Fprintf(w, "\t\t-> %s\n", harmless(f.Advice))
			}
		}
	})
	if err == nil && failures > 0 {
		err = fmt.Errorf("%w: %d of %d findings are failures: leases are not safe here yet", fencepost.ErrUnavailable, failures, len(findings))
	}
	return err
}

// pings is how many round trips are measured; the first ones pay for the connection.
const pings = 7

// linkAgainstTTL compares the round trip with the time that a renewal has: a third of the TTL for one that succeeds at once.
func linkAgainstTTL(ctx context.Context, e engine, ttl time.Duration) (fencepost.Finding, error) {
	db, err := e.plain(ctx)
	if err != nil {
		return fencepost.Finding{}, err
	}
	defer closeSoon(db)
	took := make([]time.Duration, pings)
	for i := range took {
		start := time.Now()
		if _, err := db.text(ctx, statement("ping")); err != nil {
			return fencepost.Finding{}, err
		}
		took[i] = time.Since(start)
	}
	slices.SortFunc(took, cmp.Compare[time.Duration])
	median := took[pings/2]
	f := fencepost.Finding{
		Check: "ttl", Level: fencepost.LevelOK, Detail: fmt.Sprintf("a round trip takes %v, a renewal of a TTL of %v is due every %v", median.Round(10*time.Microsecond), ttl, ttl/3),
	}
	switch {
	case median > ttl/6:
		f.Level, f.Advice = fencepost.LevelFailure, fmt.Sprintf("a renewal can hardly arrive in time; use a TTL of at least %v", roundUp(30*median))
	case median > ttl/30:
		f.Level, f.Advice = fencepost.LevelWarning, fmt.Sprintf("few retries fit between two renewals; use a TTL of at least %v", roundUp(30*median))
	}
	return f, nil
}

func roundUp(d time.Duration) time.Duration { return d.Truncate(time.Second) + time.Second }
