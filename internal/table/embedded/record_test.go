package embedded

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/table"
)

func TestAValueGivesBackWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := header{version: rapid.Int64Min(1).Draw(t, "version"), expires: rapid.Int64Min(0).Draw(t, "expires")}
		body := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "body")
		got, gotBody, err := parse(newDraft(body).finish(h))
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.True(t, bytes.Equal(body, gotBody))
	})
}

func TestAHeaderCostsFewBytes(t *testing.T) {
	t.Parallel()
	require.Len(t, newDraft(nil).finish(header{version: 100}), 2)
	require.Len(t, newDraft(nil).finish(header{version: 1e6, expires: 1.8e9}), 8)
}

func TestADamagedItemIsNamed(t *testing.T) {
	t.Parallel()
	for name, value := range map[string][]byte{
		"empty":         {},
		"no version":    {0, 0},
		"cut off":       {5},
		"endless":       bytes.Repeat([]byte{0xff}, 30),
		"endless later": append([]byte{1}, bytes.Repeat([]byte{0xff}, 30)...),
	} {
		tbl := openTemp(t, nil)
		require.NoError(t, tbl.db.Update(func(tx *bolt.Tx) error {
			return tx.Bucket([]byte(itemsBucket)).Put(treeKey(key("a")), value)
		}))
		_, err := tbl.Get(t.Context(), key("a"))
		require.ErrorContains(t, err, `read "p" "a": embedded: an item's header is damaged`, name)
		_, err = tbl.Put(t.Context(), table.Op{Key: key("a")})
		require.ErrorContains(t, err, "damaged", name)
		_, err = tbl.Put(t.Context(), table.Op{Key: key("b")})
		require.NoError(t, err, "%s: others are none the worse", name)
		for _, err := range tbl.Query(t.Context(), table.Range{PK: "p"}) {
			require.ErrorContains(t, err, "damaged", name)
			break
		}
	}
}
