//go:build !unix

package agent

import "errors"

// Reboot is for containers, which are Linux.
func Reboot(string, string) error { return errors.New("sandboxd needs a Unix system") }
