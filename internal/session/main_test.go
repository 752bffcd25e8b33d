package session

import (
	"bytes"
	"testing"

	"github.com/lambae/lambae/internal/table"
)

// The codec is one for the process and makes its channels on first use. Made in
// the bubble of one test they would be of no use to the next.
func TestMain(m *testing.M) {
	if _, err := table.Unpack(table.Pack(bytes.Repeat([]byte("x"), 4096))); err != nil {
		panic(err)
	}
	m.Run()
}
