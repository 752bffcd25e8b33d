package session

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/lambae/lambae/internal/table"
	"golang.org/x/sync/errgroup"
)

// ListPage is one page of a list, oldest first. Next is the cursor of the
// following page and nil on the last one. A page may hold fewer items than were
// asked for, even none, and still have a next one.
//
// The list methods take the cursor of a page before, or "" for the first page,
// and return [ErrInvalidCursor] for any other. The limit must be 1 or more.
type ListPage[T any] struct {
	Items []T
	Next  *string
}

// A list is rows under L#<kind>#<shard>, sorted by time of creation and id. A
// list that grows with use is spread over shards, so that no single partition
// takes all its writes; reading merges them again.
func listPK(kind string, shard int) string { return fmt.Sprintf("L#%s#%d", kind, shard) }

func listSK(created time.Time, id string) string { return FormatTime(created) + "#" + id }

// listedID takes the id out of a row's sort key.
func listedID(sk string) string {
	_, id, _ := strings.Cut(sk, "#")
	return id
}

func listShard(id string, shards int) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int(h.Sum32() % uint32(shards))
}

// listRows returns a page of the rows of a list with one shard.
func (d *Directory) listRows(ctx context.Context, kind, cursor string, limit int) ([]table.Item, *string, error) {
	position, err := DecodeCursor(kind, cursor)
	if err != nil {
		return nil, nil, err
	}
	rows, err := d.mergeShards(kind, 1, position, limit+1).take(ctx, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, nil, err
	}
	next := EncodeCursor(kind, rows[limit-1].SK)
	return rows[:limit], &next, nil
}

// rowMerge reads the rows of several shards in one order.
type rowMerge struct {
	table  table.Table
	batch  int
	shards []rowSource
}

// rowSource is what was read ahead of one shard.
type rowSource struct {
	pk   string
	from string
	rows []table.Item
	done bool
}

// mergeShards reads a list from behind position on, in batches of so many rows
// a shard.
func (d *Directory) mergeShards(kind string, shards int, position string, batch int) *rowMerge {
	m := &rowMerge{table: d.table, batch: batch}
	for i := range shards {
		src := rowSource{pk: listPK(kind, i)}
		if position != "" {
			src.from = behind(position)
		}
		m.shards = append(m.shards, src)
	}
	return m
}

// take returns the next n rows, fewer only at the end of the list.
func (m *rowMerge) take(ctx context.Context, n int) ([]table.Item, error) {
	var out []table.Item
	for len(out) < n {
		if err := m.fill(ctx); err != nil {
			return nil, err
		}
		first := -1
		for i, src := range m.shards {
			if len(src.rows) > 0 && (first < 0 || src.rows[0].SK < m.shards[first].rows[0].SK) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		src := &m.shards[first]
		out = append(out, src.rows[0])
		src.rows = src.rows[1:]
	}
	return out, nil
}

// fill reads the next batch of each shard that has nothing left, all at once.
func (m *rowMerge) fill(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range m.shards {
		src := &m.shards[i]
		if src.done || len(src.rows) > 0 {
			continue
		}
		group.Go(func() error {
			for row, err := range m.table.Query(ctx, table.Range{PK: src.pk, From: src.from, Limit: m.batch}) {
				if err != nil {
					return fmt.Errorf("read list %s: %w", src.pk, err)
				}
				src.rows = append(src.rows, row)
			}
			if n := len(src.rows); n > 0 {
				src.from = behind(src.rows[n-1].SK)
			}
			src.done = len(src.rows) < m.batch
			return nil
		})
	}
	return group.Wait()
}

// behind is a bound between sk and every row after it: no row's sort key begins
// with another's.
func behind(sk string) string { return sk + "!" }
