package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost"
)

// duration is a flag like 30s.
type duration time.Duration

func (d *duration) Type() string   { return "duration" }
func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("write a number with a unit, such as 500ms, 30s or 5m, and below 292 years")
	}
	*d = duration(parsed)
	return nil
}

// waiting is the flag --wait: absent, alone (for ever), or with a time.
type waiting struct {
	limit   time.Duration
	forever bool
}

const waitForever = "forever"

func (w *waiting) Type() string { return "duration" }

func (w *waiting) String() string {
	switch {
	case w.forever:
		return waitForever
	case w.limit > 0:
		return w.limit.String()
	}
	return ""
}

func (w *waiting) Set(text string) error {
	*w = waiting{}
	if text == waitForever {
		w.forever = true
		return nil
	}
	var d duration
	if err := d.Set(text); err != nil {
		return err
	}
	if d < 0 {
		return fmt.Errorf("a wait cannot be negative; 0 tries once")
	}
	w.limit = time.Duration(d)
	return nil
}

// wish is what the flags of `acquire` and `run` ask for.
type wish struct {
	ttl    duration
	wait   waiting
	holder string
}

func (w *wish) flags(f *pflag.FlagSet) {
	w.ttl = duration(fencepost.DefaultTTL)
	f.Var(&w.ttl, "ttl", "how long the lease lasts from its grant or renewal, 1s to 24h, by the database's clock")
	f.Var(&w.wait, "wait", "wait for the lease: --wait for ever, --wait=10s so long, --wait=0 or without the flag not at all")
	f.Lookup("wait").NoOptDefVal = waitForever
	f.StringVar(&w.holder, "holder", "", "a `label` that shows people who holds the lease (default host:pid)")
}

// validate looks at what can be wrong before any database is touched.
func (w *wish) validate(name string) error {
	if err := fencepost.ValidateName(name); err != nil {
		return err
	}
	return fencepost.ValidateTTL(time.Duration(w.ttl), fencepost.DefaultMinTTL, fencepost.DefaultMaxTTL)
}

// acquire gets the lease, waiting as the flags say.
func (w *wish) acquire(ctx context.Context, client *fencepost.Client, name string, opts ...fencepost.AcquireOption) (*fencepost.Lease, error) {
	opts = append(opts, fencepost.WithTTL(time.Duration(w.ttl)))
	if w.holder != "" {
		opts = append(opts, fencepost.WithHolder(w.holder))
	}
	switch {
	case w.wait.forever:
		return client.Acquire(ctx, name, opts...)
	case w.wait.limit > 0:
		ctx, cancel := context.WithTimeoutCause(ctx, w.wait.limit, fmt.Errorf("--wait=%v is over", w.wait.limit))
		defer cancel()
		return client.Acquire(ctx, name, opts...)
	}
	return client.TryAcquire(ctx, name, opts...)
}

// tokenFlags name an acquisition: by flags, or by the environment that `acquire` and `run` set.
type tokenFlags struct {
	owner, fence string
}

const tokenHelp = `The token is named by NAME, --owner and --fence, or by the environment that acquire and run set:
FENCEPOST_LEASE, FENCEPOST_OWNER and FENCEPOST_FENCE. The environment is better: arguments of other processes can be seen.`

func (t *tokenFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&t.owner, "owner", "", "the owner `token` (default $FENCEPOST_OWNER)")
	f.StringVar(&t.fence, "fence", "", "the fence `number` (default $FENCEPOST_FENCE)")
}

// token completes the flags from the environment; name is the argument, if there was one.
func (t *tokenFlags) token(cmd *cobra.Command, name string, named bool) (fencepost.Token, error) {
	owner, fence := cmd.Flags().Changed("owner"), cmd.Flags().Changed("fence")
	environment := os.Getenv(envLease)
	switch {
	case owner != fence:
		return fencepost.Token{}, usagef("--owner and --fence belong together: give both, or neither and the environment")
	case !owner && named && environment != "" && name != environment:
		// The owner and fence of one lease with the name of another: refused by the database too, but for a reason that misleads.
		return fencepost.Token{}, usagef("%q is asked for, but the token in the environment is of %s=%q; give --owner and --fence as well", name, envLease, environment)
	case !owner:
		t.owner, t.fence = os.Getenv(envOwner), os.Getenv(envFence)
	}
	if !named {
		name = environment
	}
	if !named && name == "" {
		return fencepost.Token{}, usagef("no lease is named: give its name, or set %s, %s and %s", envLease, envOwner, envFence)
	}
	if t.owner == "" && t.fence == "" {
		return fencepost.Token{}, usagef("no token is given: pass --owner and --fence, or set %s and %s", envOwner, envFence)
	}
	number, err := parseFence(t.fence)
	if err != nil {
		return fencepost.Token{}, err
	}
	token := fencepost.Token{Name: name, Owner: t.owner, Fence: number}
	return token, token.Validate()
}

func parseFence(text string) (int64, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 {
		return 0, usagef("the fence %q is not a whole number from 1 to 9223372036854775807", text)
	}
	return number, nil
}

// optionalName is the argument of commands that can take the name from the environment.
func optionalName(args []string) (name string, named bool) {
	if len(args) == 0 {
		return "", false
	}
	return args[0], true
}
