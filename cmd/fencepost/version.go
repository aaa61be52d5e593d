package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    long("Prints the version of this program and of the Go toolchain that built it.", 0, exitUsage),
		Example: `  fencepost version --json`,
		Args:    argsBetween(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			version, revision := "unknown", ""
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = s.Value
					}
				}
			}
			return a.out.print(struct {
				Version  string `json:"version"`
				Revision string `json:"revision,omitempty"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{version, revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}, func(w io.Writer) {
				fmt.Fprintf(w, "fencepost %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			})
		},
	}
}
