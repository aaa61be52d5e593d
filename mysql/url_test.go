package mysql_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost"
	"github.com/fencepost/fencepost/mysql"
)

const canary = "s3cr#t:p/ss"

func TestURLsThatCannotBeUsed(t *testing.T) {
	for _, bad := range []string{
		"", "mysql:", "mysql://", "postgres://u:" + url.QueryEscape(canary) + "@h/db", "mysql://u:" + canary + "@h:3306/db", "mysql://u:" + url.QueryEscape(canary) + "@h:3306",
		"mysql://u:" + url.QueryEscape(canary) + "@h:port/db", "mysql://h/db?password=" + url.QueryEscape(canary), "mysql://u:" + url.QueryEscape(canary) + "@h/db?parseTime=perhaps",
		"mysql://u:" + url.QueryEscape(canary) + "@h/db?tls=nowhere", "mysql://u:%zz" + canary + "@h/db", "u:" + canary + "@tcp(h)/db",
	} {
		_, err := mysql.OpenPool(t.Context(), bad)
		if !errors.Is(err, fencepost.ErrInvalid) {
			t.Errorf("%q: %v; want invalid", bad, err)
		}
		noCanary(t, err)
	}
}

func noCanary(t *testing.T, err error) {
	t.Helper()
	for _, piece := range []string{canary, "s3cr", "p/ss", url.QueryEscape(canary)} {
		if err != nil && strings.Contains(err.Error(), piece) {
			t.Errorf("a password in an error: %v", err)
		}
	}
}

func TestServersThatCannotBeAsked(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		u, err := url.Parse(p.url)
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]func(*url.URL){
			"wrong password":  func(u *url.URL) { u.User = url.UserPassword("nobody", canary) },
			"nobody listens":  func(u *url.URL) { u.Host = "127.0.0.1:1"; u.User = url.UserPassword("root", canary) },
			"no such base":    func(u *url.URL) { u.Path = "/no_such_database" },
			"no such address": func(u *url.URL) { u.Host = "no-such-host.invalid:3306"; u.User = url.UserPassword("root", canary) },
		} {
			v := *u
			change(&v)
			_, err := mysql.Open(t.Context(), v.String())
			if !errors.Is(err, fencepost.ErrUnavailable) {
				t.Errorf("%s: %v; want unavailable", what, err)
			}
			noCanary(t, err)
		}
	})
}

// An address of both schemes, with the driver's own parameters, opens a store that works and closes all it opened.
func TestOpenAndClose(t *testing.T) {
	onBoth(t, func(t *testing.T, p place) {
		u, err := url.Parse(p.url)
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range []string{"mysql", "mariadb"} {
			v := *u
			v.Scheme, v.RawQuery = scheme, "parseTime=true&loc=Local&timeout=5s&clientFoundRows=true"
			store, err := mysql.Open(t.Context(), v.String())
			if err != nil {
				t.Fatal(err)
			}
			grant := acquire(t, store, scheme, time.Hour)
			if err := renew(t, store, grant.Token); err != nil {
				t.Error(err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
			if err := store.Check(t.Context(), grant.Token); !errors.Is(err, fencepost.ErrUnavailable) {
				t.Errorf("after Close: %v", err)
			}
		}
	})
}
