// Package dynamostore keeps Claude Code sessions in DynamoDB: a
// [claude.SessionStore] with every optional interface, on one small table and
// nothing but the AWS SDK.
//
// Each transcript is a row of chunks, numbered without gaps, and an append is
// one conditional put of the next number: whoever loses the race reads what was
// put before, drops the entries that are known by now, and tries the number
// after it. So no entry is lost or stored twice, whatever runs at once.
//
//	pk                    sk                      what
//	S#<project>#<id>      M#<n>                   chunk n of the session's own transcript
//	S#<project>#<id>      S#<subpath>#<n>         chunk n of a subagent's
//	S#<project>#<id>      K#<subpath>             that the subpath exists
//	P#<project>           <id>                    summary: data, mtime, and up to which chunk
//	B#<random>            <i>                     part i of a chunk too large for one item
//
// Names are escaped where they would be mistaken for separators. Chunks are
// compressed. An entry may be of any size.
package dynamostore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/lambae/lambae/sdk/claude"
)

// Store is a session store in a table. Make one with [New].
type Store struct {
	db    *dynamodb.Client
	table string
	now   func() time.Time

	mu    sync.Mutex
	tails map[claude.SessionKey]*tail
}

// tail is what this process knows of a transcript, so that an append need not
// read it all again. It may be behind the table, never ahead.
type tail struct {
	mu    sync.Mutex
	next  int // number of the next chunk
	uuids map[string]bool
}

// New returns a store in an existing table; see [CreateTable].
func New(db *dynamodb.Client, table string) *Store {
	return &Store{db: db, table: table, now: time.Now, tails: make(map[claude.SessionKey]*tail)}
}

// CreateTable makes the table a store needs, with on-demand capacity, and waits
// until it is there. A table that exists is left as it is.
func CreateTable(ctx context.Context, db *dynamodb.Client, table string) error {
	_, err := db.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   &table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
		},
	})
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("create table %s: %w", table, err)
	}
	waiter := dynamodb.NewTableExistsWaiter(db)
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &table}, time.Minute); err != nil {
		return fmt.Errorf("wait for table %s: %w", table, err)
	}
	return nil
}

// escape makes a name safe between separators.
func escape(name string) string { return url.QueryEscape(name) }

func unescape(name string) string {
	plain, err := url.QueryUnescape(name)
	if err != nil {
		return name // not written by escape; shown as it is
	}
	return plain
}

func sessionPK(project, session string) string { return "S#" + escape(project) + "#" + escape(session) }

func chunkPrefix(key claude.SessionKey) string {
	if key.Subpath == "" {
		return "M#"
	}
	return "S#" + escape(key.Subpath) + "#"
}

func chunkSK(key claude.SessionKey, n int) string { return fmt.Sprintf("%s%012d", chunkPrefix(key), n) }

func (s *Store) tail(key claude.SessionKey) *tail {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tails[key]
	if t == nil {
		t = &tail{uuids: make(map[string]bool)}
		s.tails[key] = t
	}
	return t
}

func (s *Store) forget(key claude.SessionKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.tails {
		if k == key || key.Subpath == "" && k.ProjectKey == key.ProjectKey && k.SessionID == key.SessionID {
			delete(s.tails, k)
		}
	}
}

// Append implements [claude.SessionStore]. Many entries become several chunks;
// when one fails, those before it stay, and the call can be repeated.
func (s *Store) Append(ctx context.Context, key claude.SessionKey, entries []claude.Entry) error {
	for i, e := range entries {
		if !json.Valid(e) {
			return fmt.Errorf("append to %s: entry %d is not JSON", key, i)
		}
	}
	t := s.tail(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(entries) > 0 {
		n := chunkLength(entries)
		if err := s.appendChunk(ctx, key, t, entries[:n]); err != nil {
			return fmt.Errorf("append to %s: %w", key, err)
		}
		entries = entries[n:]
	}
	return nil
}

// appendChunk puts entries as the next chunk, or the one after it, and so on.
func (s *Store) appendChunk(ctx context.Context, key claude.SessionKey, t *tail, entries []claude.Entry) error {
	nonce := rand.Text()
	if t.next == 0 { // a first look: most often another process wrote before
		if err := s.catchUp(ctx, key, t); err != nil {
			return err
		}
	}
	for {
		fresh, ids := t.fresh(entries)
		if len(fresh) == 0 {
			return nil
		}
		if key.Subpath != "" && t.next == 0 {
			if err := s.putSubkey(ctx, key); err != nil { // before the chunk, so that no chunk is unlisted
				return err
			}
		}
		won, err := s.putChunk(ctx, key, t.next, nonce, fresh)
		if err != nil {
			return err
		}
		if won {
			number := t.next
			t.next++
			for _, id := range ids {
				t.uuids[id] = true
			}
			if key.Subpath == "" {
				return s.summarise(ctx, key, number)
			}
			return nil
		}
		if err := s.catchUp(ctx, key, t); err != nil {
			return err
		}
	}
}

// fresh drops the entries that are stored already.
func (t *tail) fresh(entries []claude.Entry) (fresh []claude.Entry, ids []string) {
	seen := make(map[string]bool)
	for _, e := range entries {
		if id := claude.EntryUUID(e); id != "" {
			if t.uuids[id] || seen[id] {
				continue
			}
			seen[id] = true
			ids = append(ids, id)
		}
		fresh = append(fresh, e)
	}
	return fresh, ids
}

// catchUp learns what is in the table from t.next on.
func (s *Store) catchUp(ctx context.Context, key claude.SessionKey, t *tail) error {
	return s.eachChunk(ctx, key, t.next, func(n int, entries []claude.Entry) error {
		for _, e := range entries {
			if id := claude.EntryUUID(e); id != "" {
				t.uuids[id] = true
			}
		}
		t.next = n + 1
		return nil
	})
}

// Load implements [claude.SessionStore].
func (s *Store) Load(ctx context.Context, key claude.SessionKey) ([]claude.Entry, error) {
	var all []claude.Entry
	err := s.eachChunk(ctx, key, 0, func(_ int, entries []claude.Entry) error {
		all = append(all, entries...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", key, err)
	}
	return all, nil
}
