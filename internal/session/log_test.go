package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/table"
)

func report(key, text string) func(*State) (Draft, error) {
	return func(*State) (Draft, error) {
		return Draft{Entries: []Entry{{Type: SandboxRunning, Key: key, Payload: MarshalJSON(map[string]string{"detail": text})}}}, nil
	}
}

// noise is text that no compression makes smaller.
func noise(n int) string {
	b := make([]byte, n*3/4)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

func eventsOf(t testing.TB, s *Store, id string) (out []Rendered) {
	t.Helper()
	l, release, err := s.Log(t.Context(), id)
	require.NoError(t, err)
	defer release()
	for cursor := ""; ; {
		page, next, err := l.Events(t.Context(), cursor, 3)
		require.NoError(t, err)
		out = append(out, page...)
		if next == nil {
			return out
		}
		cursor = *next
	}
}

func TestConcurrentAppendsLeaveOneDenseLog(t *testing.T) {
	t.Parallel()
	w := newWorld()
	openTest(t, NewStore(w.connect(0, faults{}), nil), "ses_c", "key_a")
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[string]bool{}
	for p := range 3 {
		s := NewStore(w.connect(uint64(p), faults{lost: 10, refused: 5}), &Options{Logger: quiet})
		for g := range 20 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				l, release, err := s.Log(context.Background(), "ses_c")
				if err != nil {
					return
				}
				defer release()
				text := fmt.Sprintf("%d-%d", p, g)
				if _, err := l.Append(context.Background(), report("key_a", text)); err == nil {
					mu.Lock()
					acked[text] = true
					mu.Unlock()
				}
			}()
		}
	}
	wg.Wait()
	require.Greater(t, len(acked), 40)
	seen := map[string]int{}
	for _, r := range eventsOf(t, NewStore(w.connect(9, faults{}), nil), "ses_c") {
		for text := range acked {
			if bytes.Contains(r.JSON(), []byte(`"`+text+`"`)) {
				seen[text]++
			}
		}
	}
	for text := range acked {
		require.Equal(t, 1, seen[text], text)
	}
}

func TestABodyLargerThanAnItemIsWholeForEveryReader(t *testing.T) {
	t.Parallel()
	w := newWorld()
	s := NewStore(w.connect(0, faults{}), nil)
	openTest(t, s, "ses_b", "key_a")
	l, release, err := s.Log(t.Context(), "ses_b")
	require.NoError(t, err)
	defer release()
	big := noise(6 << 20)
	_, err = l.Append(t.Context(), report("key_a", big))
	require.NoError(t, err)
	for _, store := range []*Store{s, NewStore(w.connect(1, faults{}), nil)} {
		events := eventsOf(t, store, "ses_b")
		require.Contains(t, string(events[len(events)-1].JSON()), big)
	}
	for k := range w.items {
		require.NotEqual(t, intents, k.PK, "the intent is gone")
	}
}

func TestSweepDeletesOnlyPartsThatNothingNames(t *testing.T) {
	t.Parallel()
	w := newWorld()
	now := time.Now()
	s := NewStore(w.connect(0, faults{}), &Options{Now: func() time.Time { return now }})
	openTest(t, s, "ses_b", "key_a")
	l, release, err := s.Log(t.Context(), "ses_b")
	require.NoError(t, err)
	defer release()
	big := noise(1 << 20)
	_, err = l.Append(t.Context(), report("key_a", big))
	require.NoError(t, err)
	_, _, err = s.putParts(t.Context(), "ses_b", chunkKey(5), []byte(noise(1<<20))) // its chunk never comes
	require.NoError(t, err)
	parts := func() (n int) {
		for k := range w.items {
			if strings.HasPrefix(k.PK, "B#") {
				n++
			}
		}
		return n
	}
	before := parts()
	require.NoError(t, s.SweepParts(t.Context(), time.Hour))
	require.Equal(t, before, parts(), "too young to touch")
	now = now.Add(2 * time.Hour)
	require.NoError(t, s.SweepParts(t.Context(), time.Hour))
	require.Less(t, parts(), before)
	require.Contains(t, string(eventsOf(t, NewStore(w.connect(1, faults{}), nil), "ses_b")[1].JSON()), big)
}

func TestALogOfANewerReleaseIsReadButNotWritten(t *testing.T) {
	t.Parallel()
	w := newWorld()
	openTest(t, NewStore(w.connect(0, faults{}), nil), "ses_n", "key_a")
	chunk := &Chunk{N: 1, Format: FormatVersion, Nonce: newNonce(), At: 5}
	entries := appendEntries(nil, []Entry{{Type: "turn.warp"}, {Type: SandboxRunning, Key: "key_a", Payload: json.RawMessage(`{}`)}})
	require.NoError(t, w.write(table.Op{Key: table.Key{PK: logKey("ses_n"), SK: chunkKey(1)}, Body: table.Pack(chunk.encode(entries))}))
	s := NewStore(w.connect(1, faults{}), nil)
	require.Len(t, eventsOf(t, s, "ses_n"), 2)
	l, release, err := s.Log(t.Context(), "ses_n")
	require.NoError(t, err)
	defer release()
	_, err = l.Append(t.Context(), report("key_a", "x"))
	require.ErrorIs(t, err, ErrUnknownFormat)
}

// Whatever happened in a session, a process that starts from the snapshot knows
// what one that folds the whole log knows.
func TestASnapshotAndTheRestAreTheWholeLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld()
		s := NewStore(w.connect(0, faults{}), nil)
		openTest(t, s, "ses_s", "key_a", "key_b")
		l, release, err := s.Log(t.Context(), "ses_s")
		require.NoError(rt, err)
		defer release()
		for range rapid.IntRange(0, 30).Draw(rt, "steps") {
			step(rt, l)
			if rapid.Bool().Draw(rt, "snapshot") {
				l.mu.Lock()
				l.snapAt = 0
				l.mu.Unlock()
				require.NoError(rt, l.writeSnapshot(t.Context(), 0))
			}
		}
		fast, release1, err := NewStore(w.connect(1, faults{}), nil).Log(t.Context(), "ses_s")
		require.NoError(rt, err)
		defer release1()
		delete(w.items, table.Key{PK: logKey("ses_s"), SK: "SNAP"})
		slow, release2, err := NewStore(w.connect(2, faults{}), nil).Log(t.Context(), "ses_s")
		require.NoError(rt, err)
		defer release2()
		require.JSONEq(rt, string(MarshalJSON(slow.state)), string(MarshalJSON(fast.state)))
		h1, err := fast.History(t.Context())
		require.NoError(rt, err)
		h2, err := slow.History(t.Context())
		require.NoError(rt, err)
		require.Equal(rt, h2.Ops(), h1.Ops())
		for op := int64(1); op <= h2.Ops(); op++ {
			a, b := h1.View(op), h2.View(op)
			require.Equal(rt, string(bytes.Join(b[:], nil)), string(bytes.Join(a[:], nil)), "operation %d", op)
			oneResultPerCall(rt, bytes.Join(b[:], nil))
		}
		var one, two []string
		for _, r := range eventsOf(t, fast.store, "ses_s") {
			one = append(one, string(r.JSON()))
		}
		for _, r := range eventsOf(t, slow.store, "ses_s") {
			two = append(two, string(r.JSON()))
		}
		require.Equal(rt, two, one)
	})
}

// oneResultPerCall checks what every model API asks of a message list: roles
// alternate, and a tool_use is answered by one tool_result of the next message.
func oneResultPerCall(rt *rapid.T, encoded []byte) {
	var messages []struct {
		Role    string
		Content json.RawMessage
	}
	require.NoError(rt, json.Unmarshal([]byte("["+string(encoded)+"]"), &messages))
	ids := func(content json.RawMessage, kind string) (out []string) {
		for _, raw := range Blocks(content) {
			var b struct {
				Type, ID  string
				ToolUseID string `json:"tool_use_id"`
			}
			require.NoError(rt, json.Unmarshal(raw, &b))
			if b.Type == kind {
				out = append(out, b.ID+b.ToolUseID)
			}
		}
		return out
	}
	for i, m := range messages {
		if i == 0 {
			continue
		}
		require.NotEqual(rt, messages[i-1].Role, m.Role)
		require.Equal(rt, ids(messages[i-1].Content, "tool_use"), ids(m.Content, "tool_result"), "%s", encoded)
	}
}

// step does one thing that clients and servers do to a session.
func step(rt *rapid.T, l *Log) {
	key := rapid.SampledFrom([]string{"key_a", "key_b"}).Draw(rt, "key")
	add := func(turn int64, entries ...Entry) {
		_, err := l.Append(context.Background(), func(*State) (Draft, error) { return Draft{Turn: turn, Entries: entries}, nil })
		require.NoError(rt, err)
	}
	var turn *TurnState
	l.View(func(s *State) { turn = s.Turn })
	say := Entry{Type: ClientMessageSend, Key: key, Payload: NewMessage("user", Quote(rapid.StringN(0, 8, -1).Draw(rt, "text")))}
	ask := Entry{Type: ProviderRequest, Key: key, Payload: json.RawMessage(`{"attempt":0}`)}
	if turn == nil {
		switch rapid.IntRange(0, 3).Draw(rt, "idle") {
		case 0:
			add(0, Entry{Type: SessionDriverRegister, Key: key, Payload: json.RawMessage(`{}`)})
		case 1:
			add(0, Entry{Type: MarkTools, Key: key, Payload: json.RawMessage(`[{"name":"a","advert":{"name":"a"}}]`)})
		default:
			add(NewTurn, Entry{Type: MarkBegin, Key: key, Wall: 7, Idem: &Idem{Key: key, Body: "b"}}, say, ask)
		}
		return
	}
	if turn.Paused {
		var open *Exchange
		l.View(func(s *State) { open = s.Thread.Open })
		merged := open.Abandon(json.RawMessage(`[{"type":"text","text":"go on"}]`))
		add(NewTurn, Entry{Type: MarkResume, Key: key}, Entry{Type: ClientMessageSend, Key: key, Payload: NewMessage("user", merged)}, ask)
		return
	}
	answer := Entry{Type: ProviderResponse, Key: key, Payload: json.RawMessage(`{"ok":true}`)}
	tool := NewMessage("assistant", json.RawMessage(`[{"type":"tool_use","id":"t","name":"a","input":{}}]`))
	switch rapid.IntRange(0, 4).Draw(rt, "running") {
	case 0:
		add(turn.ID, breakTurn(&State{Turn: turn}, "lost")...)
	case 1:
		add(turn.ID, answer, Entry{Type: MarkStep, Key: key, Payload: tool}, Entry{Type: ServerMessageSend, Key: key}, Entry{Type: MarkPause, Key: key, Wall: 9})
	case 2:
		add(turn.ID, answer, Entry{Type: MarkStep, Key: key, Payload: tool}, Entry{Type: ToolResult, Key: key, Payload: json.RawMessage(`{"tool_use_id":"t","content":"r","is_error":false}`)}, ask)
	default:
		add(turn.ID, answer, Entry{Type: ServerMessageSend, Key: key, Payload: NewMessage("assistant", Quote("fin"))}, Entry{Type: MarkEnd, Key: key, Outcome: "done"})
	}
}

// The rebuild is part of the format: this log was written once and must show the
// same events for ever.
func TestAnOldLogShowsTheSameEventsForEver(t *testing.T) {
	t.Parallel()
	w := newWorld()
	raw, err := os.ReadFile(filepath.Join("testdata", "golden-log.jsonl"))
	require.NoError(t, err)
	for n, line := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
		require.NoError(t, w.write(table.Op{Key: table.Key{PK: logKey("ses_00000000000000000000000000000001"), SK: chunkKey(int64(n))}, Body: table.Pack(line)}))
	}
	list := []byte(`[{"name":"a","input_schema":{"type":"object","properties":{}}}]`)
	s := NewStore(w.connect(0, faults{}), nil)
	_, err = s.putValue(t.Context(), "ses_00000000000000000000000000000001", table.Op{Body: list, Key: table.Key{PK: logKey("ses_00000000000000000000000000000001"), SK: "TOOLS#aa"}})
	require.NoError(t, err)
	var got bytes.Buffer
	for _, r := range eventsOf(t, s, "ses_00000000000000000000000000000001") {
		got.Write(append(r.JSON(), '\n'))
	}
	want, err := os.ReadFile(filepath.Join("testdata", "golden-events.jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		require.NoError(t, os.WriteFile(filepath.Join("testdata", "golden-events.jsonl"), got.Bytes(), 0o600))
		t.Fatal("golden-events.jsonl was written; read it, and commit it when it is right")
	}
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

func TestIdleSessionsFitTheCache(t *testing.T) {
	t.Parallel()
	w := newWorld()
	s := NewStore(w.connect(0, faults{}), &Options{CacheBytes: 100 << 10})
	for i := range 50 {
		id := fmt.Sprintf("ses_%d", i)
		openTest(t, s, id, "key_a")
		l, release, err := s.Log(t.Context(), id)
		require.NoError(t, err)
		_, err = l.Append(t.Context(), report("key_a", strings.Repeat("x", 5000)))
		require.NoError(t, err)
		if i%2 == 0 {
			require.NoError(t, l.Close(t.Context(), "key_a"))
		}
		release()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	require.LessOrEqual(t, s.idle.bytes, 100<<10)
	require.LessOrEqual(t, s.ended.bytes, 25<<10)
	require.Greater(t, s.idle.Len(), s.ended.Len(), "ended sessions push out no open one")
	require.Len(t, s.logs, s.idle.Len()+s.ended.Len())
	for _, l := range s.logs {
		require.Equal(t, l.state.Open(), l.idleIn == &s.idle)
	}
}

// Paging through a session that has ended reads its log once, not once a page.
func TestAnEndedSessionStaysForTheNextPage(t *testing.T) {
	t.Parallel()
	h := newWorld().connect(0, faults{})
	s := NewStore(h, nil)
	for i := range 2 * maxEnded {
		openTest(t, s, fmt.Sprintf("ses_%d", i), "key_a")
	}
	var last *Log
	for i := range 2 * maxEnded {
		l, release, err := s.Log(t.Context(), fmt.Sprintf("ses_%d", i))
		require.NoError(t, err)
		require.NoError(t, l.Close(t.Context(), "key_a"))
		release()
		last = l
	}
	again, release, err := s.Log(t.Context(), last.ID)
	require.NoError(t, err)
	defer release()
	require.Same(t, last, again)
	require.Len(t, s.logs, maxEnded)
}

// A driver that declares other tools for every message must not fill the memory.
func TestToolListsInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	s := NewStore(newWorld().connect(0, faults{}), nil)
	openTest(t, s, "ses_l", "key_a")
	l, release, err := s.Log(t.Context(), "ses_l")
	require.NoError(t, err)
	defer release()
	list := func(i int) []byte { return []byte(`["` + strings.Repeat(fmt.Sprint(i%10), 200<<10) + `"]`) }
	for i := range 20 {
		hash := fmt.Sprintf("%064d", i)
		_, err := l.Append(t.Context(), func(*State) (Draft, error) {
			return Draft{Lists: map[string][]byte{hash: list(i)}, Entries: []Entry{{Type: ProviderRequest, Key: "key_a", Hash: hash, Payload: json.RawMessage(`{"attempt":0}`)}}}, nil
		})
		require.NoError(t, err)
		held := 0
		for _, b := range l.lists {
			held += len(b)
		}
		require.LessOrEqual(t, held, maxListBytes)
	}
	first, err := l.toolList(t.Context(), fmt.Sprintf("%064d", 0))
	require.NoError(t, err)
	require.Equal(t, string(list(0)), string(first), "what went comes back from the store")
}

func TestRetentionKeepsWhatTheSessionNeeds(t *testing.T) {
	t.Parallel()
	w := newWorld()
	now := time.UnixMilli(1780000000000)
	clock := func() time.Time { return now }
	s := NewStore(w.connect(0, faults{}), &Options{Now: clock})
	openTest(t, s, "ses_r", "key_a")
	l, release, err := s.Log(t.Context(), "ses_r")
	require.NoError(t, err)
	defer release()
	turn := func(text string) {
		_, err := l.Append(t.Context(), func(*State) (Draft, error) {
			return Draft{Turn: NewTurn, Entries: []Entry{{Type: MarkBegin, Key: "key_a"}, {Type: ClientMessageSend, Key: "key_a", Payload: NewMessage("user", Quote(text))},
				{Type: ProviderRequest, Key: "key_a", Payload: json.RawMessage(`{"attempt":0}`)}, {Type: ServerMessageSend, Key: "key_a", Payload: NewMessage("assistant", Quote("re "+text))}, {Type: MarkEnd, Key: "key_a", Outcome: "done"}}}, nil
		})
		require.NoError(t, err)
	}
	for i := range 5 {
		turn(fmt.Sprintf("old %d", i))
	}
	_, err = l.Append(t.Context(), report("key_a", noise(1<<20)))
	require.NoError(t, err)
	page, next, err := l.Events(t.Context(), "", 4)
	require.NoError(t, err)
	old := page[3].ID
	now = now.Add(48 * time.Hour)
	turn("new")
	elsewhere, release2, err := NewStore(w.connect(1, faults{}), &Options{Now: clock}).Log(t.Context(), "ses_r")
	require.NoError(t, err)
	defer release2()

	require.NoError(t, l.Retain(t.Context(), now.Add(-24*time.Hour)))
	require.NoError(t, l.Retain(t.Context(), now.Add(-24*time.Hour)), "again finds nothing to do")
	for k := range w.items {
		require.False(t, strings.HasPrefix(k.PK, "B#"), "parts go with their chunk")
	}
	for name, log := range map[string]*Log{"the same process": l, "another that had it open": elsewhere} {
		events, _, err := log.Events(t.Context(), "", 200)
		require.NoError(t, err, name)
		require.Len(t, events, 1+3, name)
		require.Equal(t, SessionOpen, events[0].Type)
		require.Contains(t, string(events[2].JSON()), `"old 0"`, "%s: the model still sees the whole history", name)
		after, _, err := log.Events(t.Context(), *next, 200)
		require.NoError(t, err, "%s: a cursor into the past goes on at what is kept", name)
		require.Len(t, after, 3)
		_, ok, err := log.Find(t.Context(), old)
		require.NoError(t, err)
		require.False(t, ok)
	}
	require.Len(t, eventsOf(t, NewStore(w.connect(2, faults{}), nil), "ses_r"), 4)
	turn("newer")
	require.Len(t, eventsOf(t, NewStore(w.connect(3, faults{}), nil), "ses_r"), 7)
}
