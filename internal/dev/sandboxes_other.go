//go:build !unix

package dev

import (
	"errors"
	"sync/atomic"

	"github.com/lambae/lambae/internal/app"
)

func processMaker(Options, *atomic.Pointer[string]) (app.SandboxMaker, error) {
	return nil, errors.New("BAE_SANDBOX_DRIVER=process needs a Unix system; use docker or none")
}
