package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	server "github.com/lambae/lambae/internal/app"
)

func (a *app) versionCommand() *command {
	c := newCommand("version", "show the version of this program")
	c.run = func(context.Context, []string) error {
		_, err := fmt.Fprintf(a.stdout, "lambae %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	}
	return c
}

// version is what the Go tool recorded in the binary, else the release.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return server.Version
}
