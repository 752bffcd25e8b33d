package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// bucket gets objects by signed links. The policy of the bucket that `cdk
// bootstrap` makes refuses plain HTTP, which is all that the emulator speaks: it
// is taken off when it stands in the way. The link itself must hold all the same.
type bucket struct{ cfg aws.Config }

func (b bucket) get(ctx context.Context, link string) ([]byte, error) {
	res, err := do(ctx, http.MethodGet, link)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusForbidden {
		res.Body.Close()
		if err := b.dropPolicy(ctx, link); err != nil {
			return nil, err
		}
		if res, err = do(ctx, http.MethodGet, link); err != nil {
			return nil, err
		}
	}
	defer res.Body.Close()
	object, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.1000s", res.Status, object)
	}
	return object, err
}

// dropPolicy takes the policy off the bucket that a link is of.
func (b bucket) dropPolicy(ctx context.Context, link string) error {
	u, err := url.Parse(link)
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, u.Scheme+"://"+u.Host+"/"+name+"?policy=", nil)
	if err != nil {
		return err
	}
	credentials, err := b.cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	const nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // SHA-256
	req.Header.Set("X-Amz-Content-Sha256", nothing)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, nothing, "s3", b.cfg.Region, time.Now()); err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("take the policy off %s: %s", name, res.Status)
	}
	return nil
}

func do(ctx context.Context, method, link string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, link, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}
