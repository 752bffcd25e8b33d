//go:build !unix

package agent

import (
	"errors"
	"os"
)

// Lock is for the process driver, which needs Unix.
func Lock(string) (*os.File, error) {
	return nil, errors.New("file locks are not supported on this system")
}
