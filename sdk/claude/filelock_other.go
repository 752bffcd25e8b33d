//go:build !unix

package claude

import "os"

// lockFile does nothing here: a folder belongs to one process on systems
// without advisory locks.
func lockFile(*os.File) error { return nil }
