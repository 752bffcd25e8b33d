package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// fileSummary is a summary on the disk, and how much of the transcript is in
// it.
type fileSummary struct {
	SessionSummary
	Covers int64 `json:"covers"`
}

// refreshSummary folds into a session's summary what it does not cover yet. The
// transcript's lock is held.
func refreshSummary(path string, key SessionKey, f *os.File) (SessionSummary, error) {
	file := strings.TrimSuffix(path, transcriptSuffix) + summarySuffix
	var was fileSummary
	var prev *SessionSummary
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &was) == nil && was.Data != nil {
		prev = &was.SessionSummary
	}
	info, err := f.Stat()
	if err != nil {
		return SessionSummary{}, err
	}
	if info.Size() < was.Covers { // another file than the one it was made of
		was, prev = fileSummary{}, nil
	}
	if info.Size() == was.Covers && prev != nil {
		was.MTime = mtimeOf(info)
		return was.SessionSummary, nil
	}
	tail, err := io.ReadAll(io.NewSectionReader(f, was.Covers, info.Size()-was.Covers))
	if err != nil {
		return SessionSummary{}, err
	}
	next := fileSummary{Covers: info.Size()}
	next.SessionSummary = FoldSessionSummary(prev, key, completeLines(tail), mtimeOf(info))
	return next.SessionSummary, writeSummary(file, next)
}

// writeSummary replaces a summary at once. It need not reach the disk: a lost
// one is made again from the transcript.
func writeSummary(file string, summary fileSummary) error {
	data, err := json.Marshal(summary)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".summary-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// ListSessions implements [SessionLister].
func (s *FileStore) ListSessions(_ context.Context, projectKey string) ([]SessionStamp, error) {
	var stamps []SessionStamp
	err := s.eachSession(projectKey, func(key SessionKey, path string) error {
		info, err := os.Stat(path)
		if err == nil {
			stamps = append(stamps, SessionStamp{SessionID: key.SessionID, MTime: mtimeOf(info)})
		}
		return err
	})
	return stamps, err
}

// ListSessionSummaries implements [SummaryLister].
func (s *FileStore) ListSessionSummaries(_ context.Context, projectKey string) ([]SessionSummary, error) {
	var summaries []SessionSummary
	err := s.eachSession(projectKey, func(key SessionKey, path string) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := lockFile(f); err != nil {
			return err
		}
		summary, err := refreshSummary(path, key, f)
		if err == nil {
			summaries = append(summaries, summary)
		}
		return err
	})
	return summaries, err
}

// eachSession visits the transcripts of a project's sessions; one that is
// deleted meanwhile is left out.
func (s *FileStore) eachSession(projectKey string, visit func(key SessionKey, path string) error) error {
	folder := filepath.Join(s.dir, fileName(projectKey))
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list sessions of %s: %w", projectKey, err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), transcriptSuffix)
		if !ok || e.IsDir() {
			continue
		}
		id, err := partName(name)
		if err != nil {
			continue // not a file of this store
		}
		err = visit(SessionKey{ProjectKey: projectKey, SessionID: id}, filepath.Join(folder, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("list sessions of %s: %w", projectKey, err)
		}
	}
	return nil
}
