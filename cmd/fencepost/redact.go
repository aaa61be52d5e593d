package main

import (
	"io"
	"net/url"
	"regexp"
	"strings"
)

// passwordInURL finds what stands between user and host.
var passwordInURL = regexp.MustCompile(`(//[^\s:/?#@]*):[^\s/]*@`)

// redact removes passwords from a text. The database packages keep them out of their errors; this is for what nobody foresaw, such
// as a URL that was given as an argument.
func (p *place) redact(text string) string {
	for _, secret := range p.secrets() {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return passwordInURL.ReplaceAllString(text, "$1:***@")
}

// secrets are the passwords of the URL, as they are written there and as they are meant. A password of a few characters is not looked for:
// it would be found, and by its absence shown, in ordinary words.
func (p *place) secrets() []string {
	var found []string
	add := func(secret string) {
		if len(secret) >= 6 {
			found = append(found, secret)
		}
	}
	if u, err := url.Parse(p.url); err == nil {
		if password, ok := u.User.Password(); ok {
			add(password)
		}
		for key, values := range u.Query() {
			if strings.Contains(strings.ToLower(key), "password") {
				for _, value := range values {
					add(value)
				}
			}
		}
	}
	// A password with special characters makes a URL that cannot be parsed.
	if _, rest, ok := strings.Cut(p.url, "://"); ok {
		if at := strings.LastIndex(rest, "@"); at >= 0 {
			if _, password, ok := strings.Cut(rest[:at], ":"); ok {
				add(password)
			}
		}
	}
	return found
}

// redacting is stderr. What is written to it comes in whole lines.
type redacting struct {
	to    io.Writer
	place *place
}

func (r *redacting) Write(b []byte) (int, error) {
	if _, err := io.WriteString(r.to, r.place.redact(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
