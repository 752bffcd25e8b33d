package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLogNamesOnlyMethodsThatExist(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"session.sendMessage":            "session.sendMessage",
		"session.subscribe":              "session.subscribe",
		"session.registerDriver":         "session.registerDriver",
		"":                               "",
		"session.sendmessage":            "unknown",
		strings.Repeat("secret ", 1<<16): "unknown",
	} {
		require.Equal(t, want, loggedMethod(name))
	}
}
