package postgres

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost"
)

const (
	urlForm = "postgres://user:password@host:port/database"
	// dialTimeout is for URLs that name no connect_timeout: the driver itself would wait for minutes.
	dialTimeout = 10 * time.Second
)

// OpenPool connects to the database of a URL like postgres://user:password@host:port/database, with the parameters of
// github.com/jackc/pgx/v5/pgxpool after a question mark. Of several hosts it takes the one that can write, unless target_session_attrs says
// otherwise. The caller closes the pool. A URL that cannot be used is [fencepost.ErrInvalid], a server that cannot be reached or
// refuses the user [fencepost.ErrUnavailable]. The password is in no error.
func OpenPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := configOf(url)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, unavailable(ctx, err)
	}
	return pool, nil
}

// configOf reads a URL. Its errors never repeat the URL or what a parser said of the whole of it: both can contain the password, or
// a piece of it that looks like a port.
func configOf(text string) (*pgxpool.Config, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return nil, badURL("it must begin with postgres:// or postgresql://")
	}
	// Several hosts are no URL to the standard library.
	authority, path, _ := strings.Cut(rest, "/")
	if hosts := strings.Split(authority[strings.LastIndex(authority, "@")+1:], ","); len(hosts) > 1 {
		authority = strings.TrimSuffix(authority, ","+strings.Join(hosts[1:], ","))
	}
	u, err := url.Parse(scheme + "://" + authority + "/" + path)
	if err != nil {
		return nil, badURL("it cannot be parsed; write it like %s and percent-encode special characters in user and password", urlForm)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, badURL("the part after the question mark cannot be parsed")
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, badURL("%s", safeDetail(err, u, query))
	}
	c := config.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = dialTimeout
	}
	if len(c.Fallbacks) > 0 && !query.Has("target_session_attrs") && c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return config, nil
}

// safeDetail is what the driver says of a parameter, if it is sure to contain no secret. The driver puts the URL, as far as it could
// blacken it, in front, between backticks.
func safeDetail(err error, u *url.URL, query url.Values) string {
	const general = "a parameter has a value that the driver does not take; write it like " + urlForm
	_, detail, found := cutLast(err.Error(), "`: ")
	if !found {
		return general
	}
	secrets := append(query["password"], query["sslpassword"]...)
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password, url.QueryEscape(password), url.PathEscape(password))
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(detail, secret) {
			return general
		}
	}
	return detail
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func badURL(format string, args ...any) error {
	return fmt.Errorf("%w: the database URL cannot be used: %s", fencepost.ErrInvalid, fmt.Sprintf(format, args...))
}
