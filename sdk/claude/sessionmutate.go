package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
)

// RenameSession gives a session a title. It appends to the transcript; what
// was there stays.
func RenameSession(ctx context.Context, id, title string, opts *SessionOptions) error {
	title = trimSpace(title)
	if title == "" {
		return errors.New("a session's title must not be empty")
	}
	return appendMark(ctx, id, opts.orDefault(), jsonObject{
		{"type", json.RawMessage(`"custom-title"`)}, {"customTitle", jsonText(title)}, {"sessionId", jsonText(id)},
	})
}

// TagSession gives a session a tag; nil clears it.
func TagSession(ctx context.Context, id string, tag *string, opts *SessionOptions) error {
	value := ""
	if tag != nil {
		if value = trimSpace(*tag); value == "" {
			return errors.New("a session's tag must not be empty; pass nil to clear it")
		}
	}
	return appendMark(ctx, id, opts.orDefault(), jsonObject{
		{"type", json.RawMessage(`"tag"`)}, {"tag", jsonText(value)}, {"sessionId", jsonText(id)},
	})
}

func jsonText(s string) json.RawMessage {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // as claude writes it
	_ = e.Encode(s)        // a string always encodes
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}

func appendMark(ctx context.Context, id string, opts *SessionOptions, mark jsonObject) error {
	if !isUUID(id) {
		return invalidID(id)
	}
	if opts.Store != nil {
		key, err := opts.key(id)
		if err != nil {
			return err
		}
		// The uuid lets a store recognise a repeated call.
		mark.set("uuid", uuid.NewString())
		mark.set("timestamp", timestamp(time.Now()))
		if err := opts.Store.Append(ctx, key, []Entry{mark.encode()}); err != nil {
			return fmt.Errorf("append to session %s in the store: %w", key, err)
		}
		return nil
	}
	path, _, err := opts.find(ctx, id)
	if err != nil {
		return err
	}
	return appendLine(path, mark.encode())
}

// appendLine adds one line to a transcript that claude may write to as well:
// in one write, and on a line of its own even after a torn one.
func appendLine(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	line = append(line, '\n')
	if torn, err := endsTorn(f); err != nil {
		return err
	} else if torn {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	return f.Close()
}

// endsTorn reports whether a file's last line lacks its newline.
func endsTorn(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return last[0] != '\n', err
}

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// DeleteSession removes a session and its subagents' transcripts, on this
// machine or in the store, nowhere else. A store without [SessionDeleter]
// keeps what it has: some are meant to.
func DeleteSession(ctx context.Context, id string, opts *SessionOptions) error {
	opts = opts.orDefault()
	if !isUUID(id) {
		return invalidID(id)
	}
	if opts.Store != nil {
		deleter, ok := opts.Store.(SessionDeleter)
		if !ok {
			return nil
		}
		key, err := opts.key(id)
		if err != nil {
			return err
		}
		if err := deleter.DeleteSession(ctx, key); err != nil {
			return fmt.Errorf("delete session %s in the store: %w", key, err)
		}
		return nil
	}
	path, _, err := opts.find(ctx, id)
	if err != nil {
		return err
	}
	// Subagents first: as long as the transcript is there, a call that failed
	// half-way can be repeated.
	if err := os.RemoveAll(strings.TrimSuffix(path, ".jsonl")); err != nil {
		return fmt.Errorf("delete subagents of session %s: %w", id, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("delete session %s: %w", id, err)
	}
	return nil
}
