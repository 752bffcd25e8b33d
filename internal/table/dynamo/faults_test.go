package dynamo_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/dynamo"
	"github.com/lambae/lambae/internal/table/tabletest"
	"github.com/lambae/lambae/internal/table/tabletest/faulty"
	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

// A rig is one table seen twice: as it is, and through faults.
type rig struct {
	name   string
	clean  *dynamo.Table
	faulty *dynamo.Table
	calls  *calls
}

func newRig(t *testing.T, plan faulty.Plan, opts dynamo.Options) rig {
	t.Helper()
	endpoint := ministack.Endpoint(t)
	r := rig{name: ministack.TableName(), calls: &calls{n: map[string]int{}}}
	require.NoError(t, dynamo.CreateTable(t.Context(), ministack.Client(endpoint), r.name))
	opts.OnCall = r.calls.add
	var err error
	r.clean, err = dynamo.Open(ministack.Client(endpoint), r.name, nil)
	require.NoError(t, err)
	r.faulty, err = dynamo.Open(ministack.Client(faulty.Proxy(t, endpoint, plan)), r.name, &opts)
	require.NoError(t, err)
	return r
}

type calls struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *calls) add(op string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[op]++
}

func (c *calls) of(op string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[op]
}

// first breaks the first requests for an operation, and lets the rest pass.
func first(op string, faults ...faulty.Fault) faulty.Plan {
	return func(o string, n int) faulty.Fault {
		if o == op && n <= len(faults) {
			return faults[n-1]
		}
		return faulty.Fault{}
	}
}

var key = table.Key{PK: "p", SK: "a"}

func TestAFaultOfAPutChangesNothingForItsCaller(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		faults []faulty.Fault
	}{
		{"the answer is lost", []faulty.Fault{faulty.LostAnswer}},
		{"the answer is lost several times", []faulty.Fault{faulty.LostAnswer, faulty.LostAnswer, faulty.LostAnswer}},
		{"the request is lost", []faulty.Fault{faulty.LostRequest}},
		{"a server error hides that it was done", []faulty.Fault{faulty.ErrorThatDid}},
		{"server errors", []faulty.Fault{faulty.ServerError, faulty.Unavailable}},
		{"it is throttled", []faulty.Fault{faulty.Throttled, faulty.OverCapacity, faulty.OverLimit}},
		{"a transaction holds the item", []faulty.Fault{faulty.Conflict}},
		{"the answer is lost, then it is throttled", []faulty.Fault{faulty.LostAnswer, faulty.Throttled}},
		{"the request is lost, then its answer", []faulty.Fault{faulty.LostRequest, faulty.LostAnswer}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []string{"plain", "absent", "version"} {
				r := newRig(t, first("PutItem", tt.faults...), dynamo.Options{})
				op := table.Op{Key: key, Body: []byte("mine"), Expires: time.Unix(4e9, 0)}
				switch c {
				case "absent":
					op.If = table.IfAbsent()
				case "version":
					v, err := r.clean.Put(t.Context(), table.Op{Key: key, Body: []byte("before")})
					require.NoError(t, err)
					op.If = table.IfVersion(v)
				}
				v, err := r.faulty.Put(t.Context(), op)
				require.NoError(t, err, c)
				got, err := r.clean.Get(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, []table.Item{{Key: key, Body: []byte("mine"), Version: v, Expires: op.Expires.UTC()}}, got, c)
				require.Equal(t, len(tt.faults)+1, r.calls.of("PutItem"), c)
			}
		})
	}
}

func TestAPutThatLostAgainstAnotherFailsItsConditionWhateverTheFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault faulty.Fault
	}{
		{"no fault", faulty.Fault{}},
		{"the request is lost", faulty.LostRequest},
		{"the answer is lost", faulty.LostAnswer},
		{"a server error", faulty.ServerError},
		{"it is throttled", faulty.Throttled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, first("PutItem", tt.fault), dynamo.Options{})
			_, err := r.clean.Put(t.Context(), table.Op{Key: key, Body: []byte("other"), If: table.IfAbsent()})
			require.NoError(t, err)
			_, err = r.faulty.Put(t.Context(), table.Op{Key: key, Body: []byte("mine"), If: table.IfAbsent()})
			require.ErrorIs(t, err, table.ErrCondition)

			two := table.Key{PK: "p", SK: "two"}
			r = newRig(t, first("PutItem", tt.fault), dynamo.Options{})
			v, err := r.clean.Put(t.Context(), table.Op{Key: two})
			require.NoError(t, err)
			_, err = r.clean.Put(t.Context(), table.Op{Key: two, Body: []byte("other"), If: table.IfVersion(v)})
			require.NoError(t, err)
			_, err = r.faulty.Put(t.Context(), table.Op{Key: two, Body: []byte("mine"), If: table.IfVersion(v)})
			require.ErrorIs(t, err, table.ErrCondition)
		})
	}
}

// The other writer acts while the first waits to ask again. Whether the first
// put landed before cannot be seen, so the driver must not claim that nothing
// was written.
func TestAPutThatMayHaveBeenOverwrittenIsUnknownNotRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault faulty.Fault
		other func(t *testing.T, clean *dynamo.Table)
	}{
		{"its item was written over", faulty.LostAnswer, func(t *testing.T, clean *dynamo.Table) {
			got, err := clean.Get(t.Context(), key)
			require.NoError(t, err)
			_, err = clean.Put(t.Context(), table.Op{Key: key, Body: []byte("over"), If: table.IfVersion(got[0].Version)})
			require.NoError(t, err)
		}},
		{"a plain put came between", faulty.LostRequest, func(t *testing.T, clean *dynamo.Table) {
			_, err := clean.Put(t.Context(), table.Op{Key: key, Body: []byte("over")})
			require.NoError(t, err)
		}},
		{"its item was written over twice", faulty.LostAnswer, func(t *testing.T, clean *dynamo.Table) {
			for range 2 {
				_, err := clean.Put(t.Context(), table.Op{Key: key, Body: []byte("over")})
				require.NoError(t, err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, withVersion := range []bool{false, true} {
				var r rig
				r = newRig(t, func(op string, n int) faulty.Fault {
					switch {
					case op == "PutItem" && n == 1:
						return tt.fault
					case op == "PutItem" && n == 2:
						tt.other(t, r.clean)
					}
					return faulty.Fault{}
				}, dynamo.Options{})
				op := table.Op{Key: key, Body: []byte("mine"), If: table.IfAbsent()}
				if withVersion {
					v, err := r.clean.Put(t.Context(), table.Op{Key: key})
					require.NoError(t, err)
					op.If = table.IfVersion(v)
				}
				_, err := r.faulty.Put(t.Context(), op)
				require.ErrorContains(t, err, "unknown")
				require.NotErrorIs(t, err, table.ErrCondition)
			}
		})
	}
}

func TestAnotherWinsWhileALostRequestIsAskedAgain(t *testing.T) {
	t.Parallel()
	var r rig
	r = newRig(t, func(op string, n int) faulty.Fault {
		switch {
		case op == "PutItem" && n == 1:
			return faulty.LostRequest
		case op == "PutItem" && n == 2:
			_, err := r.clean.Put(context.Background(), table.Op{Key: key, Body: []byte("other"), If: table.IfAbsent()})
			require.NoError(t, err)
		}
		return faulty.Fault{}
	}, dynamo.Options{})
	_, err := r.faulty.Put(t.Context(), table.Op{Key: key, Body: []byte("mine"), If: table.IfAbsent()})
	require.ErrorIs(t, err, table.ErrCondition)
}

func TestAPutThatArrivesAfterItsCallerAskedAgainLandsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, first("PutItem", faulty.Fault{Hold: 300 * time.Millisecond}), dynamo.Options{AttemptTimeout: 50 * time.Millisecond})
	v, err := r.faulty.Put(t.Context(), table.Op{Key: key, Body: []byte("mine"), If: table.IfAbsent()})
	require.NoError(t, err)
	_, err = r.clean.Put(t.Context(), table.Op{Key: key, Body: []byte("next"), If: table.IfVersion(v)})
	require.NoError(t, err, "the late request did not write a second time")
}

func TestALostDeleteOrWriteHappensOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		faults []faulty.Fault
	}{
		{"the answer is lost", []faulty.Fault{faulty.LostAnswer}},
		{"the request is lost", []faulty.Fault{faulty.LostRequest}},
		{"a server error hides that it was done", []faulty.Fault{faulty.ErrorThatDid, faulty.LostAnswer}},
		{"it conflicts", []faulty.Fault{faulty.ConflictInTx, faulty.ThrottledInTx}},
		{"all of it", []faulty.Fault{faulty.Throttled, faulty.LostAnswer, faulty.ConflictInTx, faulty.ServerError}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, first("TransactWriteItems", tt.faults...), dynamo.Options{})
			require.NoError(t, r.faulty.Write(t.Context(),
				table.Op{Key: key, Body: []byte("A"), If: table.IfAbsent()},
				table.Op{Key: table.Key{PK: "p", SK: "b"}, Body: []byte("B"), If: table.IfAbsent()}))
			got, err := r.clean.Get(t.Context(), key, table.Key{PK: "p", SK: "b"})
			require.NoError(t, err)
			require.Equal(t, "AB", string(got[0].Body)+string(got[1].Body))
			require.Equal(t, len(tt.faults)+1, r.calls.of("TransactWriteItems"))
			require.ErrorIs(t, r.faulty.Write(t.Context(), table.Op{Key: key, If: table.IfAbsent()}), table.ErrCondition)

			r = newRig(t, first("TransactWriteItems", tt.faults...), dynamo.Options{})
			v, err := r.clean.Put(t.Context(), table.Op{Key: key, Body: []byte("A")})
			require.NoError(t, err)
			_, err = r.faulty.Put(t.Context(), table.Op{Key: key, Delete: true, If: table.IfVersion(v)})
			require.NoError(t, err)
			got, err = r.clean.Get(t.Context(), key)
			require.NoError(t, err)
			require.False(t, got[0].Exists())
			_, err = r.faulty.Put(t.Context(), table.Op{Key: key, Delete: true, If: table.IfVersion(v)})
			require.ErrorIs(t, err, table.ErrCondition)
		})
	}
}

func TestReadsOutlastFaults(t *testing.T) {
	t.Parallel()
	faults := []faulty.Fault{faulty.LostRequest, faulty.ServerError, faulty.Throttled, faulty.LostAnswer, faulty.OverCapacity}
	r := newRig(t, func(_ string, n int) faulty.Fault {
		if n <= len(faults) {
			return faults[n-1]
		}
		return faulty.Fault{}
	}, dynamo.Options{})
	b := table.Key{PK: "p", SK: "b"}
	for _, k := range []table.Key{key, b} {
		_, err := r.clean.Put(t.Context(), table.Op{Key: k, Body: []byte(k.SK)})
		require.NoError(t, err)
	}
	one, err := r.faulty.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, "a", string(one[0].Body))
	two, err := r.faulty.Get(t.Context(), b, key)
	require.NoError(t, err)
	require.Equal(t, "ba", string(two[0].Body)+string(two[1].Body))
	var all string
	for it, err := range r.faulty.Query(t.Context(), table.Range{PK: "p"}) {
		require.NoError(t, err)
		all += it.SK
	}
	require.Equal(t, "ab", all)
	for _, op := range []string{"GetItem", "BatchGetItem", "Query"} {
		require.Equal(t, len(faults)+1, r.calls.of(op), op)
	}
}

func TestUnprocessedKeysAreAskedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(op string, n int) faulty.Fault {
		if op == "BatchGetItem" && n < 4 {
			return faulty.Fault{Keys: n}
		}
		return faulty.Fault{}
	}, dynamo.Options{})
	var keys []table.Key
	for i := range 10 {
		k := table.Key{PK: "p", SK: string(rune('a' + i))}
		keys = append(keys, k)
		_, err := r.clean.Put(t.Context(), table.Op{Key: k, Body: []byte(k.SK)})
		require.NoError(t, err)
	}
	got, err := r.faulty.Get(t.Context(), keys...)
	require.NoError(t, err)
	for i, it := range got {
		require.Equal(t, keys[i].SK, string(it.Body))
	}
	require.Equal(t, 4, r.calls.of("BatchGetItem"), "1 + 2 + 3 + the other 4 keys")
}

// storm breaks a third of all requests, in every way there is.
func storm(random func() uint64) faulty.Plan {
	faults := []faulty.Fault{
		faulty.LostRequest, faulty.LostAnswer, faulty.ServerError, faulty.ErrorThatDid, faulty.Unavailable,
		faulty.Throttled, faulty.OverCapacity, faulty.Conflict,
		{Hold: 30 * time.Millisecond}, {HoldAnswer: 400 * time.Millisecond}, {Hold: 400 * time.Millisecond},
	}
	return func(string, int) faulty.Fault {
		if i := random() % uint64(3*len(faults)); i < uint64(len(faults)) {
			return faults[i]
		}
		return faulty.Fault{}
	}
}

func TestInAStormOfFaultsNoAppendIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	var seed atomic.Uint64
	random := func() uint64 { return mix(seed.Add(1)) }
	name := ministack.TableName()
	require.NoError(t, dynamo.CreateTable(t.Context(), ministack.Client(ministack.Endpoint(t)), name))
	var tables []table.Table
	for range 3 { // processes
		url := faulty.Proxy(t, ministack.Endpoint(t), storm(random))
		tbl, err := dynamo.Open(ministack.Client(url), name, &dynamo.Options{AttemptTimeout: 250 * time.Millisecond})
		require.NoError(t, err)
		tables = append(tables, tbl)
	}
	tabletest.AppendConcurrently(t, tables, 6, 8)
	tabletest.RewriteConcurrently(t, tables, 6, 5)
}

// mix makes evenly spread numbers of a counter, the same in every run.
func mix(x uint64) uint64 {
	x *= 0x9E3779B97F4A7C15
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	return x ^ x>>32
}
