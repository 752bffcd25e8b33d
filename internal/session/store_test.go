package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cache of idle sessions is bounded in bytes, so declared tools must count:
// they stay in the fold when the chunk that declared them is long gone.
func TestDeclaredToolsCountAsMemoryOfTheSession(t *testing.T) {
	t.Parallel()
	s := NewStore(newWorld().connect(1, faults{}), &Options{Logger: quiet})
	about := strings.Repeat("x", 1<<20)
	tool := ClientTool{Name: "t", Description: &about}.Tool()
	l, release, err := s.Open(t.Context(), Opening{ID: "ses_tools", Key: "key_a", SecretHash: "h", ProfileID: "pro_x",
		Declaration: Declaration{Tools: []Tool{tool}}, Created: s.now()})
	require.NoError(t, err)
	defer release()
	for range maxRecent {
		_, err := l.Append(t.Context(), report("key_a", "small"))
		require.NoError(t, err)
	}
	_, _, bytes := l.footprint()
	require.Greater(t, bytes, len(about))
	require.Less(t, bytes, 2*len(about))
}
