package provider

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// errStop ends a stream early without a failure.
var errStop = errors.New("stop")

// readError tells a stream that broke from one that said something wrong.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// readEvents passes the data of each server-sent event on, without its name:
// both APIs tell what an event is in its data. It reads on to the end of the
// stream unless event returns an error, which it returns; more than limit bytes
// are an error. An event that the end of the stream cuts off is passed on too:
// some servers leave out the last empty line, and JSON shows what is incomplete.
func readEvents(r io.Reader, limit int64, event func(data []byte) error) error {
	lines := bufio.NewReaderSize(&io.LimitedReader{R: r, N: limit}, 32<<10)
	var data []byte
	var read int64
	for {
		line, err := lines.ReadBytes('\n')
		if read += int64(len(line)); read >= limit {
			return fmt.Errorf("the stream is larger than %d MB", limit>>20)
		}
		line = bytes.TrimRight(line, "\r\n")
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(text, []byte(" "))...)
		}
		if (len(line) == 0 || err == io.EOF) && data != nil {
			if err := event(data); err != nil {
				return err
			}
			data = nil
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return &readError{err}
		}
	}
}
