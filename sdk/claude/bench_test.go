package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// streamOf is stream-json as a session with large tool results has it.
func streamOf(size int) []byte {
	var b bytes.Buffer
	text := strings.Repeat("some code \\\"quoted\\\" and more\\n", 200)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word %d "}},"parent_tool_use_id":null,"session_id":"s","uuid":"u"}`+"\n", i)
		fmt.Fprintf(&b, `{"type":"assistant","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"%s"}],"usage":{"input_tokens":1}},"parent_tool_use_id":null,"session_id":"s","uuid":"u"}`+"\n", text)
		fmt.Fprintf(&b, `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"%s"}]},"session_id":"s","uuid":"u"}`+"\n", text)
	}
	return b.Bytes()
}

// BenchmarkParse reads stream-json into messages on one core. The goal is
// 200 MB/s.
//
// Spec: wire; speed
func BenchmarkParse(b *testing.B) {
	data := streamOf(16 << 20)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		lines := newLineReader(bytes.NewReader(data))
		for {
			line, err := lines.next()
			if err == io.EOF {
				break
			}
			require.NoError(b, err)
			if _, err := decodeMessage(line); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// sessionFolder writes n sessions whose sizes differ as real ones do.
func sessionFolder(t testing.TB, n int) (config string) {
	config = t.TempDir()
	folder := filepath.Join(config, "projects", "-srv")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	filler := strings.Repeat("x", 2000)
	for i := range n {
		var b bytes.Buffer
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		fmt.Fprintf(&b, `{"parentUuid":null,"isSidechain":false,"cwd":"/srv","gitBranch":"main","type":"user","uuid":"a","timestamp":"2026-01-02T03:04:05.678Z","message":{"role":"user","content":"prompt %d"}}`+"\n", i)
		for range i % 40 {
			fmt.Fprintf(&b, `{"parentUuid":"a","isSidechain":false,"cwd":"/srv","gitBranch":"main","type":"assistant","uuid":"b","timestamp":"2026-01-02T03:04:05.678Z","message":{"model":"m","content":[{"type":"text","text":"%s"}]}}`+"\n", filler)
		}
		fmt.Fprintf(&b, `{"type":"last-prompt","lastPrompt":"prompt %d","sessionId":"%s"}`+"\n", i, id)
		require.NoError(t, os.WriteFile(filepath.Join(folder, id+".jsonl"), b.Bytes(), 0o600))
	}
	return config
}

// BenchmarkListSessions lists 10,000 sessions and reports how many times as
// long that takes as plainly reading their heads and tails with as many
// goroutines. The goal is 1.5. It compares the fastest of each: what else the
// machine does only ever adds.
//
// Spec: ListSessions; speed
func BenchmarkListSessions(b *testing.B) {
	const n = 10_000
	config := sessionFolder(b, n)
	listing, reading := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		sessions, err := ListSessions(b.Context(), &ListOptions{SessionOptions: SessionOptions{ConfigDir: config}})
		listing = min(listing, time.Since(began))
		require.NoError(b, err)
		require.Len(b, sessions, n)

		began = time.Now()
		readHeads(b, filepath.Join(config, "projects", "-srv"))
		reading = min(reading, time.Since(began))
	}
	b.ReportMetric(float64(listing.Milliseconds()), "list-ms")
	b.ReportMetric(float64(reading.Milliseconds()), "read-ms")
	b.ReportMetric(float64(listing)/float64(reading), "list/read")
}

// readHeads reads the heads and tails of a folder's files as one would who
// wants nothing but them.
func readHeads(t testing.TB, folder string) {
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			buf := make([]byte, headBytes)
			for i := int(next.Add(1)) - 1; i < len(entries); i = int(next.Add(1)) - 1 {
				assert.NoError(t, readEnds(filepath.Join(folder, entries[i].Name()), buf))
			}
		})
	}
	wait.Wait()
}

func readEnds(path string, buf []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.ReadAt(buf, 0); err != nil && err != io.EOF {
		return err
	}
	if info.Size() > headBytes {
		_, err = f.ReadAt(buf, info.Size()-headBytes)
	}
	return err
}

// countingStore takes entries and forgets them.
type countingStore struct{ entries atomic.Int64 }

func (s *countingStore) Append(_ context.Context, _ SessionKey, entries []Entry) error {
	s.entries.Add(int64(len(entries)))
	return nil
}

func (s *countingStore) Load(context.Context, SessionKey) ([]Entry, error) { return nil, nil }

// bigSession writes a transcript of a size.
func bigSession(t testing.TB, size int) (config, id string) {
	config, id = t.TempDir(), "11111111-2222-4333-8444-555555555555"
	folder := filepath.Join(config, "projects", "-srv")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	f, err := os.Create(filepath.Join(folder, id+".jsonl"))
	require.NoError(t, err)
	line := []byte(`{"type":"user","message":{"content":"` + strings.Repeat("x", 8000) + "\"}}\n")
	for written := 0; written < size; written += len(line) {
		_, err := f.Write(line)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	return config, id
}

// BenchmarkImport imports a session of 100 MB and reports the heap's peak. The
// goal is 64 MB.
//
// Spec: ImportSessionToStore; speed
func BenchmarkImport(b *testing.B) {
	const size = 100 << 20
	config, id := bigSession(b, size)
	b.SetBytes(size)
	var peak uint64
	for b.Loop() {
		peak = max(peak, peakDuring(func() {
			err := ImportSessionToStore(b.Context(), id, &countingStore{}, &ImportOptions{SessionOptions: SessionOptions{ConfigDir: config}})
			require.NoError(b, err)
		}))
	}
	b.ReportMetric(float64(peak)/(1<<20), "peak-MB")
}

// peakDuring returns by how much the heap grew at most while f ran.
func peakDuring(f func()) uint64 {
	debug.FreeOSMemory()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			if now.HeapInuse > before.HeapInuse {
				most = max(most, now.HeapInuse-before.HeapInuse)
			}
			select {
			case <-done:
				peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(done)
	return <-peak
}

// BenchmarkMirror reports what mirroring a frame costs, and which share that is
// of a session in which a frame comes every 50 ms. The goal is 2 %.
//
// Spec: mirror; speed
func BenchmarkMirror(b *testing.B) {
	entry, err := json.Marshal(map[string]any{"type": "user", "uuid": "u", "message": strings.Repeat("x", 4000)})
	require.NoError(b, err)
	line := []byte(fmt.Sprintf(`{"type":"transcript_mirror","filePath":"/c/projects/p/s.jsonl","entries":[%s,%s]}`, entry, entry))
	m := newMirror(&countingStore{}, "/c", false, func(Message) { b.Error("mirror failed") })
	b.ReportAllocs()
	n := 0
	began := time.Now()
	for b.Loop() {
		m.frame(line)
		n++
	}
	m.finish()
	b.ReportMetric(100*time.Since(began).Seconds()/float64(n)/0.05, "%-of-session")
}
