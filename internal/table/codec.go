package table

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// The first byte of a packed body says how the rest is stored.
const (
	rawBody  = 0
	zstdBody = 1
)

const (
	// packFrom is the size from which compression is tried; below it there is
	// little to win.
	packFrom = 512
	// packWindow is how far back the encoder looks for repetition; it bounds the
	// memory it keeps.
	packWindow = 1 << 20
	// MaxUnpacked is the largest body that [Unpack] makes, whatever a damaged or
	// hostile input claims.
	MaxUnpacked = 64 << 20
)

// ErrPacked is returned by [Unpack] for what [Pack] has not made.
var ErrPacked = errors.New("table: packed body is damaged")

// The encoder and the decoder keep their buffers between calls and hold nothing
// of what passes through; both serve any number of callers at once.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(packWindow), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // only for options that contradict each other
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxUnpacked))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// Pack makes a body smaller for storage when that helps. The result, at most one
// byte longer than the body, goes to [Unpack]. It is safe for concurrent use.
func Pack(body []byte) []byte {
	if len(body) >= packFrom {
		out := make([]byte, 1, 1+len(body)/2)
		out[0] = zstdBody
		if out = encoder().EncodeAll(body, out); len(out) < len(body) {
			return out
		}
	}
	out := make([]byte, 1+len(body))
	out[0] = rawBody
	copy(out[1:], body)
	return out
}

// Unpack returns the body that [Pack] was given. It may share memory with b. It
// is safe for concurrent use.
//
// Its error is an [ErrPacked].
func Unpack(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrPacked)
	}
	switch b[0] {
	case rawBody:
		return b[1:], nil
	case zstdBody:
		if len(b) == 1 {
			return nil, fmt.Errorf("%w: it is cut off", ErrPacked) // to zstd, no frame is no error
		}
		body, err := decoder().DecodeAll(b[1:], nil)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPacked, err)
		}
		return body, nil
	}
	return nil, fmt.Errorf("%w: it begins with the unknown byte %#02x", ErrPacked, b[0])
}
