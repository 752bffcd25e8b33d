package claude

import (
	"io/fs"
	"syscall"
)

// headFile is a file open for reading two pieces. A listing opens thousands:
// without os.File's poller and finalizer each takes a fifth less time.
type headFile struct {
	path        string
	fd          int
	size, mtime int64 // mtime in milliseconds since 1970
}

func openHead(path string) (*headFile, error) {
	f := &headFile{path: path}
	err := f.try("open", func() (err error) {
		f.fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	var stat syscall.Stat_t
	if err := f.try("stat", func() error { return syscall.Fstat(f.fd, &stat) }); err != nil {
		f.close()
		return nil, err
	}
	f.size, f.mtime = stat.Size, stat.Mtim.Nano()/1e6
	return f, nil
}

// readAt fills buf as far as the file goes; it may have shrunk meanwhile.
func (f *headFile) readAt(buf []byte, offset int64) ([]byte, error) {
	done := 0
	for done < len(buf) {
		n := 0
		err := f.try("read", func() (err error) {
			n, err = syscall.Pread(f.fd, buf[done:], offset+int64(done))
			return err
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		done += n
	}
	return buf[:done], nil
}

func (f *headFile) close() { _ = syscall.Close(f.fd) }

// try repeats a call that a signal interrupted.
func (f *headFile) try(op string, call func() error) error {
	for {
		switch err := call(); err {
		case nil:
			return nil
		case syscall.EINTR:
		default:
			return &fs.PathError{Op: op, Path: f.path, Err: err}
		}
	}
}
