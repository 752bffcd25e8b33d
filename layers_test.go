package lambae_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/lambae/lambae/"

// layers from the bottom up. A package may import what is in a lower line and
// what is in its own folder, nothing else of ours.
var layers = [][]string{
	{"internal/awsjson"},
	{"internal/jsonfield", "internal/config", "internal/telemetry", "internal/lambdahttp", "internal/modeltest", "sdk/claude", "sdk/lambae"},
	{"internal/table"},
	{"internal/session"},
	{"internal/provider", "internal/mcp", "internal/sandbox", "internal/push"},
	{"internal/turn"},
	{"internal/api"},
	{"internal/app", "internal/awsstack"},
	{"internal/dev"},
	{"functions", "localstack"},
	{"cmd", "events", "test"},
}

func layerOf(path string) (layer int, folder string) {
	for i, folders := range layers {
		for _, f := range folders {
			if path == f || strings.HasPrefix(path, f+"/") {
				return i, f
			}
		}
	}
	return -1, ""
}

func TestImportsOnlyPointDown(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	require.NoError(t, err)
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return
		} else {
			require.NoError(t, err)
		}
		from, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours {
			continue // this test's own package
		}
		layer, folder := layerOf(from)
		require.GreaterOrEqual(t, layer, 0, "%s has no layer: give it a place in this test", from)
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			below, other := layerOf(to)
			require.True(t, below < layer || other == folder, "%s must not import %s", from, to)
			if strings.HasPrefix(from, "sdk/") {
				require.True(t, strings.HasPrefix(to, "sdk/"), "%s is for others to import and must not need %s", from, to)
			}
		}
	}
}
