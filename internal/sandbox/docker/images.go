package docker

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/lambae/lambae/internal/sandbox"
)

const (
	// lookFor is how long [Driver.Images] waits to learn whether an image is there.
	lookFor = 2 * time.Second
	// againAfter is when an image that could not be had is tried again.
	againAfter = time.Minute
	// pullFor is the longest pull.
	pullFor = 15 * time.Minute
)

// image is what is known of an image. It is looked for once; one that is not
// there is pulled.
type image struct {
	looked chan struct{} // closed when it is known whether the image is there
	done   chan struct{} // closed when there is nothing more to wait for
	err    error         // valid when done
	at     time.Time     // of done
}

// Images implements [sandbox.Driver].
func (d *Driver) Images(ctx context.Context, names []string) []sandbox.ImageStatus {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	known := make([]*image, len(names))
	for i, n := range names {
		known[i] = d.image(n)
	}
	out := make([]sandbox.ImageStatus, len(names))
	for i, im := range known {
		out[i] = sandbox.ImageStatus{Name: names[i], Status: sandbox.ImagePending}
		select {
		case <-im.looked:
		case <-ctx.Done():
			continue
		}
		select {
		case <-im.done:
			out[i].Status = sandbox.ImageAvailable
			if im.err != nil {
				out[i].Status, out[i].Detail = sandbox.ImageError, im.err.Error()
			}
		default:
		}
	}
	return out
}

// ensure waits until the image is there.
func (d *Driver) ensure(ctx context.Context, name string) error {
	im := d.image(name)
	select {
	case <-im.done:
		return im.err
	case <-ctx.Done():
		return fmt.Errorf("sandbox image %q is still being pulled; try again", name)
	}
}

// image returns what is known of an image and begins to look for one that is new
// or could not be had for a while.
func (d *Driver) image(name string) *image {
	d.mu.Lock()
	defer d.mu.Unlock()
	if im := d.images[name]; im != nil {
		select {
		case <-im.done:
			if im.err == nil || time.Since(im.at) < againAfter {
				return im
			}
		default:
			return im
		}
	}
	im := &image{looked: make(chan struct{}), done: make(chan struct{})}
	d.images[name] = im
	d.pulls.Go(func() { d.look(name, im) })
	return im
}

func (d *Driver) look(name string, im *image) {
	ctx, cancel := context.WithTimeout(d.ctx, pullFor)
	defer cancel()
	err := checkName(name)
	found := err != nil
	if !found {
		_, missing := d.docker(ctx, "image", "inspect", name)
		found = missing == nil
	}
	if !found {
		close(im.looked)
		_, err = d.docker(ctx, "pull", name)
	}
	if err != nil {
		im.err = fmt.Errorf("sandbox image %q error: %w", name, err)
	}
	im.at = time.Now()
	close(im.done)
	if found {
		close(im.looked)
	}
}

// checkName refuses what the docker command would take for something else than an
// image.
func checkName(name string) error {
	if strings.HasPrefix(name, "-") || name == "" || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("not the name of an image")
	}
	return nil
}
