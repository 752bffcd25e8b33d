package embedded_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/embedded"
	"github.com/lambae/lambae/internal/table/tabletest"
)

func TestTheStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	tabletest.Run(t, func(t *testing.T) table.Table {
		tbl, err := embedded.Open(filepath.Join(t.TempDir(), "data", "lambae.db"), nil)
		require.NoError(t, err)
		return tbl
	})
}
