package dynamo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/dynamo"
	"github.com/lambae/lambae/internal/table/tabletest"
	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

func TestTheTableKeepsTheContract(t *testing.T) {
	t.Parallel()
	client := ministack.Client(ministack.Endpoint(t))
	tabletest.Run(t, func(t *testing.T) table.Table {
		name := ministack.TableName()
		require.NoError(t, dynamo.CreateTable(t.Context(), client, name))
		tbl, err := dynamo.Open(client, name, nil)
		require.NoError(t, err)
		return tbl
	})
}
