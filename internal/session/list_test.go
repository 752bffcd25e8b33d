package session

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lambae/lambae/internal/table"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCursorsFitTheirListOnly(t *testing.T) {
	t.Parallel()
	position := "2026-07-06T18:26:10.000Z#" + NewID(SessionPrefix)
	cursor := EncodeCursor("session", position)
	back, err := DecodeCursor("session", cursor)
	require.NoError(t, err)
	require.Equal(t, position, back)
	back, err = DecodeCursor("session", "")
	require.NoError(t, err)
	require.Empty(t, back)

	flipped := []byte(cursor)
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]string{
		"of another list": EncodeCursor("profile", position), "made up": "zzz", "a number": "42", "cut": cursor[:len(cursor)-2],
		"with a bit flipped": string(flipped), "padded": cursor + "=", "with white space": cursor + " ",
		"no position": EncodeCursor("session", ""), "another version": base64.RawURLEncoding.EncodeToString([]byte("\x02123456x")),
		"a forged key": EncodeCursor("session", "a\x00b"), "a forged length": EncodeCursor("session", strings.Repeat("x", 201)),
	} {
		_, err := DecodeCursor("session", c)
		require.Equal(t, ErrInvalidCursor{c}, err, name)
	}
	require.EqualError(t, ErrInvalidCursor{"zzz"}, `invalid cursor: "zzz"`)
	require.Less(t, len(ErrInvalidCursor{strings.Repeat("z", 9999)}.Error()), 200)
}

func TestAnyPrintablePositionSurvivesItsCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list, position := rapid.String().Draw(t, "list"), rapid.StringMatching(`[!-~]{1,200}`).Draw(t, "position")
		back, err := DecodeCursor(list, EncodeCursor(list, position))
		require.NoError(t, err)
		require.Equal(t, position, back)
	})
}

func TestSmallListsPageOldestFirst(t *testing.T) {
	t.Parallel()
	d, _, clock := testDirectory(t)
	var names []string
	for i := range 7 {
		clock.advance(time.Millisecond * time.Duration(i%2)) // some share a millisecond
		p, err := d.CreateProfile(t.Context(), Profile{Name: fmt.Sprint(i), PrimaryProvider: "p"})
		require.NoError(t, err)
		_, _, err = d.CreateClientKey(t.Context(), p.Name, p.ID)
		require.NoError(t, err)
		names = append(names, p.Name)
	}
	for limit := 1; limit <= 8; limit++ {
		var profiles, keys []string
		walk(t, limit, func(cursor string) (int, *string) {
			page, err := d.ListProfiles(t.Context(), cursor, limit)
			require.NoError(t, err)
			for _, p := range page.Items {
				profiles = append(profiles, p.Name)
			}
			return len(page.Items), page.Next
		})
		walk(t, limit, func(cursor string) (int, *string) {
			page, err := d.ListClientKeys(t.Context(), cursor, limit)
			require.NoError(t, err)
			for _, k := range page.Items {
				keys = append(keys, k.Name)
			}
			return len(page.Items), page.Next
		})
		require.ElementsMatch(t, names, profiles)
		require.ElementsMatch(t, names, keys)
	}
	_, err := d.ListProfiles(t.Context(), EncodeCursor(clientKeyKind, "x"), 1)
	require.ErrorAs(t, err, &ErrInvalidCursor{})
	_, err = d.ListClientKeys(t.Context(), "zzz", 1)
	require.ErrorAs(t, err, &ErrInvalidCursor{})
	_, err = d.ListSessions(t.Context(), "", "zzz", 1, nil)
	require.ErrorAs(t, err, &ErrInvalidCursor{})
}

// walk follows next cursors to the end and checks that only the last page is short.
func walk(t require.TestingT, limit int, page func(cursor string) (n int, next *string)) {
	cursor := ""
	for {
		n, next := page(cursor)
		require.LessOrEqual(t, n, limit)
		if next == nil {
			return
		}
		require.Equal(t, limit, n, "only the last page is short")
		cursor = *next
	}
}

// testLogs stands for the sessions' logs.
type testLogs struct {
	logged map[string]LoggedState
	asked  atomic.Int64
}

func (l *testLogs) lookup(_ context.Context, id string) (LoggedState, error) {
	l.asked.Add(1)
	return l.logged[id], nil
}

// open makes a session whose row was added and whose log says what state says.
func (l *testLogs) open(t require.TestingT, d *Directory, created time.Time, state string) SessionRow {
	version := "v/" + state
	row := SessionRow{ID: NewID(SessionPrefix), ProfileID: NewID(ProfilePrefix), State: StateOpen, ClientVersion: &version, CreatedAt: created}
	require.NoError(t, d.AddSessionRow(context.Background(), row))
	logged := LoggedState{Exists: true, State: state, CreatedAt: created}
	if state != StateOpen {
		closed := created.Add(time.Second)
		logged.ClosedAt = &closed
	}
	l.logged[row.ID] = logged
	row.State, row.ClosedAt = logged.State, logged.ClosedAt
	return row
}

func newTestLogs() *testLogs { return &testLogs{logged: map[string]LoggedState{}} }

func listAll(t require.TestingT, d *Directory, state string, limit int, lookup StateLookup) []SessionRow {
	rows := []SessionRow{}
	walk(t, limit, func(cursor string) (int, *string) {
		page, err := d.ListSessions(context.Background(), state, cursor, limit, lookup)
		require.NoError(t, err)
		rows = append(rows, page.Items...)
		return len(page.Items), page.Next
	})
	return rows
}

// Whatever the sessions, the filter and the page size: paging shows each session
// of the state once, in order of creation, and the last page knows that it is.
func TestSessionsPageInOrderUnderAnyFilter(t *testing.T) {
	t.Parallel()
	d, faults, clock := testDirectory(t)
	rapid.Check(t, fewerRuns(40, func(rt *rapid.T) {
		clearSessions(rt, faults)
		logs := newTestLogs()
		var all []SessionRow
		for range rapid.IntRange(0, 25).Draw(rt, "sessions") {
			clock.advance(time.Duration(rapid.IntRange(0, 2).Draw(rt, "ms")) * time.Millisecond)
			state := rapid.SampledFrom([]string{StateOpen, StateClosed, StateError}).Draw(rt, "state")
			all = append(all, logs.open(rt, d, d.instant(), state))
		}
		slices.SortFunc(all, func(a, b SessionRow) int {
			return strings.Compare(listSK(a.CreatedAt, a.ID), listSK(b.CreatedAt, b.ID))
		})
		limit := rapid.IntRange(1, 27).Draw(rt, "limit")
		state := rapid.SampledFrom([]string{"", StateOpen, StateClosed, StateError}).Draw(rt, "filter")
		want := []SessionRow{}
		for _, row := range all {
			if state == "" || row.State == state {
				want = append(want, row)
			}
		}
		require.Equal(rt, want, listAll(rt, d, state, limit, logs.lookup))
	}))
}

func clearSessions(t require.TestingT, faults *directoryFaults) {
	var ops []table.Op
	for shard := range sessionShards {
		for item, err := range faults.Query(context.Background(), table.Range{PK: listPK(sessionKind, shard)}) {
			require.NoError(t, err)
			ops = append(ops, table.Op{Key: item.Key, Delete: true})
		}
	}
	require.NoError(t, faults.Table.Write(context.Background(), ops...))
}

func TestSettledRowsAreNotAskedForAgain(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	logs := newTestLogs()
	rows := []SessionRow{
		logs.open(t, d, d.instant(), StateOpen),
		logs.open(t, d, d.instant(), StateClosed),
		logs.open(t, d, d.instant(), StateError),
	}
	first := listAll(t, d, "", 10, logs.lookup)
	require.ElementsMatch(t, rows, first)
	require.EqualValues(t, 3, logs.asked.Load())
	require.Equal(t, first, listAll(t, d, "", 10, logs.lookup))
	require.EqualValues(t, 3, logs.asked.Load())
}

func TestClosingIsSeenThrough(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	logs := newTestLogs()
	row := logs.open(t, d, d.instant(), StateOpen)
	only := func() SessionRow {
		rows := listAll(t, d, "", 10, logs.lookup)
		require.Len(t, rows, 1)
		return rows[0]
	}
	require.NoError(t, d.MarkSessionClosing(t.Context(), row))
	require.Equal(t, row, only(), "the terminal chunk has not come yet")
	require.Equal(t, row, only())

	// The terminal chunk comes, and its writer dies before it marks the row.
	closed := row.CreatedAt.Add(time.Minute)
	logs.logged[row.ID] = LoggedState{Exists: true, State: StateClosed, CreatedAt: row.CreatedAt, ClosedAt: &closed}
	want := row
	want.State, want.ClosedAt = StateClosed, &closed
	require.Equal(t, want, only())
	asked := logs.asked.Load()
	require.Equal(t, want, only())
	require.Equal(t, asked, logs.asked.Load(), "written down")

	require.NoError(t, d.MarkSessionTerminal(t.Context(), row, StateError, closed))
	want.State = StateError
	require.Equal(t, want, only(), "a terminal mark needs no look-up")
	require.Equal(t, asked, logs.asked.Load())
}

func TestRowWithoutALogIsHiddenAndOnceOldRemoved(t *testing.T) {
	t.Parallel()
	d, faults, clock := testDirectory(t)
	logs := newTestLogs()
	row := logs.open(t, d, d.instant(), StateOpen)
	delete(logs.logged, row.ID)
	stored := func() bool {
		items, err := faults.Table.Get(t.Context(), sessionRowOp(storedRow{SessionRow: row}, table.Condition{}).Key)
		require.NoError(t, err)
		return items[0].Exists()
	}
	require.Empty(t, listAll(t, d, "", 10, logs.lookup))
	require.True(t, stored(), "it may be being opened right now")
	clock.advance(orphanAfter)
	require.Empty(t, listAll(t, d, "", 10, logs.lookup))
	require.False(t, stored())
}

func TestOpeningDoneAgainUnderTheSameIDIsListedOnce(t *testing.T) {
	t.Parallel()
	d, _, clock := testDirectory(t)
	logs := newTestLogs()
	again := logs.open(t, d, d.instant(), StateOpen) // this opener died before chunk 0
	clock.advance(time.Second)
	again.CreatedAt = d.instant()
	require.NoError(t, d.AddSessionRow(t.Context(), again))
	logs.logged[again.ID] = LoggedState{Exists: true, State: StateOpen, CreatedAt: again.CreatedAt}
	require.Equal(t, []SessionRow{again}, listAll(t, d, "", 10, logs.lookup))
	require.Equal(t, []SessionRow{again}, listAll(t, d, "", 10, logs.lookup))
}

func TestRowWhoseTimeIsNotItsLogsIsStillListed(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	logs := newTestLogs()
	row := logs.open(t, d, d.instant(), StateOpen)
	logs.logged[row.ID] = LoggedState{Exists: true, State: StateOpen, CreatedAt: row.CreatedAt.Add(time.Millisecond)}
	require.Equal(t, []SessionRow{row}, listAll(t, d, "", 10, logs.lookup))
}

func TestRareStateDoesNotMakeOnePageReadEverything(t *testing.T) {
	t.Parallel()
	d, faults, clock := testDirectory(t)
	// Rows are written many at once: this test needs more than a page may scan.
	var ops []table.Op
	row := SessionRow{State: StateOpen, CreatedAt: d.instant()}
	const n = maxScannedRows + 200
	for i := range n {
		clock.advance(time.Millisecond)
		row.ID, row.CreatedAt = NewID(SessionPrefix), d.instant()
		if i == n-1 {
			row.State = StateError
		}
		ops = append(ops, sessionRowOp(storedRow{SessionRow: row, Confirmed: true}, table.Condition{}))
	}
	for chunk := range slices.Chunk(ops, table.MaxWrite) {
		require.NoError(t, faults.Table.Write(t.Context(), chunk...))
	}
	page, err := d.ListSessions(t.Context(), StateError, "", 50, nil)
	require.NoError(t, err)
	require.Empty(t, page.Items)
	require.NotNil(t, page.Next, "there is more to look at")
	page, err = d.ListSessions(t.Context(), StateError, *page.Next, 50, nil)
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Nil(t, page.Next)
}

func TestListingFailsWhenALogCannotBeRead(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	row := newTestLogs().open(t, d, d.instant(), StateOpen)
	boom := errors.New("boom")
	_, err := d.ListSessions(t.Context(), "", "", 10, func(context.Context, string) (LoggedState, error) { return LoggedState{}, boom })
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, row.ID)
}
