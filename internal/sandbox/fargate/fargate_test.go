// What the driver does with ECS is tested with a whole server, in internal/app.
package fargate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox/fargate"
)

func TestFamiliesAreNamesECSTakes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, image := range []string{"img", "IMG", "python:3.12", "python-3.12", "1.dkr.ecr.eu-west-1.amazonaws.com/team/an-image-with-a-very-long-name-that-goes-on-and-on:and-a-tag@sha256:00", "--", "é"} {
		f := fargate.Family("lambae", image)
		require.Regexp(t, `^lambae-[A-Za-z0-9-]{1,80}$`, f)
		require.False(t, seen[f], "two images, one family: %s", f)
		seen[f] = true
	}
	require.Equal(t, "lambae-python-3-12", fargate.Family("lambae", "python:3.12")[:18])
}

func TestOptionsComeFromTheEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{"BAE_SANDBOX_CLUSTER": "c", "BAE_SANDBOX_FAMILY": "f", "BAE_SANDBOX_SUBNETS": "a, b", "BAE_SANDBOX_SECURITY_GROUPS": "g", "BAE_SANDBOX_SPOT": "true"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	o, err := fargate.FromEnv(lookup)
	require.NoError(t, err)
	require.Equal(t, fargate.Options{Cluster: "c", Family: "f", Subnets: []string{"a", "b"}, SecurityGroups: []string{"g"}, Spot: true}, o)
	delete(env, "BAE_SANDBOX_SUBNETS")
	_, err = fargate.FromEnv(lookup)
	require.EqualError(t, err, "BAE_SANDBOX_DRIVER=fargate needs BAE_SANDBOX_SUBNETS")
}
