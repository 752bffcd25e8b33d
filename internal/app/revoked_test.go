package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
)

func TestARevokedDriverIsToldWhyItsTurnEnded(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	d := s.open(profile, `{}`)
	other := d.join(profile, `{}`)
	running := d.stream("session.sendMessage", userSays(modeltest.Script(modeltest.Step{Wait: "never", Text: "late"})))
	require.Equal(t, "provider.request", running.event().Type)
	require.Equal(t, 204, s.call("DELETE", s.admin+"/admin/v1/keys/"+d.keyID, "admin", "").Status)

	fault := running.next()["error"].(map[string]any)
	require.Equal(t, map[string]any{"code": float64(-32000), "message": "the client key was revoked"}, fault)
	require.Nil(t, running.next())
	require.Equal(t, "assistant", other.send("hello")["message"].(map[string]any)["role"], "the gate is free")
}
