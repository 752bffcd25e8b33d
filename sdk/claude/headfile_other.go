//go:build !linux

package claude

import (
	"io"
	"os"
)

// headFile is a file open for reading two pieces.
type headFile struct {
	file        *os.File
	size, mtime int64 // mtime in milliseconds since 1970
}

func openHead(path string) (*headFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &headFile{f, info.Size(), info.ModTime().UnixMilli()}, nil
}

// readAt fills buf as far as the file goes; it may have shrunk meanwhile.
func (f *headFile) readAt(buf []byte, offset int64) ([]byte, error) {
	n, err := f.file.ReadAt(buf, offset)
	if err == io.EOF {
		err = nil
	}
	return buf[:n], err
}

func (f *headFile) close() { _ = f.file.Close() }
