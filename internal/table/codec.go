package table

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A packed body starts with one byte that says how the rest is kept.
const (
	rawBody  = 0
	zstdBody = 1

	// packFrom is the size below which compressing is not tried.
	packFrom = 512
	// maxUnpacked bounds what a packed body may grow to.
	maxUnpacked = 64 << 20
)

// codec is one encoder and one decoder for the process: both may be used by
// many at once and are costly to make.
var codec = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(4), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // wrong options, a programming error
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(4), zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		panic(err)
	}
	return enc, dec
})

// Pack returns body as it is stored: compressed when that makes it smaller.
func Pack(body []byte) []byte {
	if len(body) >= packFrom {
		enc, _ := codec()
		out := make([]byte, 1, 1+len(body)/2)
		out[0] = zstdBody
		if out = enc.EncodeAll(body, out); len(out) < len(body) {
			return out
		}
	}
	return append([]byte{rawBody}, body...)
}

// Unpack returns what was given to [Pack].
func Unpack(packed []byte) ([]byte, error) {
	if len(packed) == 0 {
		return nil, errors.New("unpack: nothing there")
	}
	switch packed[0] {
	case rawBody:
		return packed[1:], nil
	case zstdBody:
		_, dec := codec()
		out, err := dec.DecodeAll(packed[1:], nil)
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("unpack: unknown form %d", packed[0])
}
