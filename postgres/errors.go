package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost"
)

// PostgreSQL's error codes that mean something to leases.
const (
	codeSerialization  = "40001"
	codeDeadlock       = "40P01"
	codeUndefinedTable = "42P01"
	codeNoSchema       = "3F000"
	codeNoFunction     = "42883"
	codePrivilege      = "42501"
	codeReadOnly       = "25006"
	codeStale          = "FP001" // ours: raised by the guard
)

func serverCode(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// retryable errors ask for the whole transaction again. They mean neither held nor lost.
func retryable(err error) bool {
	c := serverCode(err)
	return c == codeSerialization || c == codeDeadlock
}

// errPlanAged is matched by a plan that no longer fits its table; the connection has forgotten it by now.
var errPlanAged = errors.New("cached plan must not change result type")

// mixedUp reports errors that a statement cache gets, not the statement: a plan made before the table or the search_path changed, and
// statements that a transaction-mode pooler prepared on another connection. The server refused before executing.
func mixedUp(err error) bool {
	switch serverCode(err) {
	case "0A000":
		return strings.Contains(err.Error(), errPlanAged.Error())
	case "42P05", "26000", "08P01":
		return true
	}
	return false
}

// classify puts an error of the driver into the product's classes. writing says whether the operation could have changed something.
func (s *Store) classify(ctx context.Context, err error, writing bool) error {
	return classify(ctx, s.place, err, writing)
}

func classify(ctx context.Context, p place, err error, writing bool) error {
	if err == nil || known(err) {
		return err
	}
	switch c := serverCode(err); {
	case c == codeUndefinedTable, c == codeNoSchema, c == codeNoFunction:
		if strings.Contains(err.Error(), p.names.Prefix) || c == codeNoSchema {
			return fmt.Errorf("%w: no fencepost schema in %s; run fencepost migrate up: %w", fencepost.ErrUnavailable, p.names.Schema, err)
		}
		return err
	case c == codePrivilege:
		return fmt.Errorf("%w: the user lacks a right; it needs USAGE on schema %s, SELECT, INSERT and UPDATE on %s, SELECT and INSERT on %s: %w",
			fencepost.ErrUnavailable, p.names.Schema, p.names.Table("leases"), p.names.Table("events"), err)
	case c == codeReadOnly:
		return fmt.Errorf("%w: the server is read-only; connect to the primary: %w", fencepost.ErrUnavailable, err)
	case writing && (c == "57P01" || c == "57P02"):
		// Ended by an administrator or a crash: it cannot be excluded that the commit was done and only its reply was not sent.
		return fmt.Errorf("%w: %w", fencepost.ErrUnknown, err)
	case strings.HasPrefix(c, "57P"), strings.HasPrefix(c, "53"), strings.HasPrefix(c, "28"), c == "3D000":
		// Starting, out of resources, refused at the door.
		return fmt.Errorf("%w: %w", fencepost.ErrUnavailable, err)
	case c == "57014", c == "55P03", retryable(err):
		return fmt.Errorf("%w: %w", fencepost.ErrUnavailable, ended(ctx, err))
	case c != "":
		return err
	}
	if !writing || pgconn.SafeToRetry(err) {
		return fmt.Errorf("%w: %w", fencepost.ErrUnavailable, ended(ctx, err))
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return fmt.Errorf("%w: %w", fencepost.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", fencepost.ErrUnknown, ended(ctx, err))
}

func known(err error) bool {
	for _, class := range []error{fencepost.ErrHeld, fencepost.ErrStale, fencepost.ErrUnknown, fencepost.ErrInvalid, fencepost.ErrUnavailable, fencepost.ErrBusy} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// ended makes errors.Is find the end of the context, whatever the driver made of it.
func ended(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// withoutSecrets is an error's text without the password of a URL in any form that it may have there.
func withoutSecrets(rawURL string, err error) string {
	text := strings.ReplaceAll(err.Error(), rawURL, "the URL")
	var secrets []string
	if u, parseErr := url.Parse(rawURL); parseErr == nil && u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password, url.QueryEscape(password), url.PathEscape(password))
	}
	if _, rest, ok := strings.Cut(rawURL, "://"); ok {
		// Also where the URL does not parse.
		if user, _, ok := strings.Cut(rest, "@"); ok {
			_, password, _ := strings.Cut(user, ":")
			secrets = append(secrets, password)
		}
	}
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "xxxxx")
		}
	}
	return text
}

// redacted shows another text for an error and keeps its chain.
type redacted struct {
	text string
	err  error
}

func (r redacted) Error() string { return r.text }
func (r redacted) Unwrap() error { return r.err }

func joined(list []string) string { return strings.Join(list, "; ") }
