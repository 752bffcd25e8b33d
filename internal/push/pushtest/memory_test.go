package pushtest_test

import (
	"testing"

	"github.com/lambae/lambae/internal/push/pushtest"
	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/tabletest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	tabletest.Run(t, func(*testing.T) table.Table { return new(pushtest.Memory) })
}
