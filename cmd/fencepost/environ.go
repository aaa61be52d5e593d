package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost"
)

// environ is the environment of a child that is to find the same leases: ours, with the database and the tables, and a token if one
// is given. A URL that came from a file is passed on as the file, so that its password does not appear in an environment.
func (p *place) environ(token *fencepost.Token) []string {
	own := map[string]string{envDB: p.absolute(), envDBFile: "", envPrefix: p.prefix, envSchema: p.schema, envLease: "", envOwner: "", envFence: ""}
	if p.fromFile {
		own[envDB], own[envDBFile] = "", os.Getenv(envDBFile)
	}
	if token != nil {
		own[envLease], own[envOwner], own[envFence] = token.Name, token.Owner, strconv.FormatInt(token.Fence, 10)
	}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, ours := own[name]
		return ours
	})
	for name, value := range own {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// absolute is the URL for a process that may change its working directory.
func (p *place) absolute() string {
	path, ok := strings.CutPrefix(p.url, "sqlite:")
	if !ok {
		return p.url
	}
	full, err := filepath.Abs(strings.TrimPrefix(path, "//"))
	if err != nil {
		return p.url
	}
	return "sqlite:" + full
}
