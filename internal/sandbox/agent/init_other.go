//go:build !unix

package agent

import "errors"

// Init is for containers, whose first process is one of Unix.
func Init([]string) (int, error) { return 0, errors.New("not on this system") }
