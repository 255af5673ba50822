package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"

	"github.com/docker/go-plugins-helpers/volume"
)

// Caller calls a plugin over its socket as the engine does. Its methods may be called concurrently.
type Caller struct {
	Client *http.Client // always connects to the socket, whatever host a URL names
	root   string       // the plugin's root directory; empty if it is this process's
}

// Dial returns the Caller of a socket, which need not exist yet.
func Dial(socket string) *Caller {
	return &Caller{Client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Refused is an error that the plugin answered.
type Refused struct{ Message string }

func (e *Refused) Error() string { return e.Message }

// Create creates a volume.
func (c *Caller) Create(ctx context.Context, name string, options map[string]string) error {
	return c.Call(ctx, "VolumeDriver.Create", volume.CreateRequest{Name: name, Options: options}, nil)
}

// Mount mounts a volume for a mount ID and returns its mount point.
func (c *Caller) Mount(ctx context.Context, name, id string) (dir string, err error) {
	var a volume.MountResponse
	err = c.Call(ctx, "VolumeDriver.Mount", volume.MountRequest{Name: name, ID: id}, &a)
	if err != nil {
		return "", err
	}
	return filepath.Join(c.root, a.Mountpoint), nil
}

// Unmount ends one Mount of a volume.
func (c *Caller) Unmount(ctx context.Context, name, id string) error {
	return c.Call(ctx, "VolumeDriver.Unmount", volume.UnmountRequest{Name: name, ID: id}, nil)
}

// Remove removes a volume.
func (c *Caller) Remove(ctx context.Context, name string) error {
	return c.Call(ctx, "VolumeDriver.Remove", volume.RemoveRequest{Name: name}, nil)
}

// Get returns a volume with its Status.
func (c *Caller) Get(ctx context.Context, name string) (*volume.Volume, error) {
	var a volume.GetResponse
	err := c.Call(ctx, "VolumeDriver.Get", volume.GetRequest{Name: name}, &a)
	return a.Volume, err
}

// List returns all volumes.
func (c *Caller) List(ctx context.Context) ([]*volume.Volume, error) {
	var a volume.ListResponse
	err := c.Call(ctx, "VolumeDriver.List", nil, &a)
	return a.Volumes, err
}

// Call calls a method of the plugin as the engine does. It sends request as JSON unless request is
// nil, and decodes the response into answer unless answer is nil. An error that the plugin answers
// is a *Refused; all other errors are errors of the connection.
func (c *Caller) Call(ctx context.Context, method string, request, answer any) error {
	body := new(bytes.Buffer)
	if request != nil {
		if err := json.NewEncoder(body).Encode(request); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://plugin/"+method, body)
	if err != nil {
		return err
	}
	resp, err := c.Client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	var refused volume.ErrorResponse
	if err := json.Unmarshal(data, &refused); err != nil {
		return fmt.Errorf("%s: status %d with %.200q: %w", method, resp.StatusCode, data, err)
	}
	if resp.StatusCode != http.StatusOK || refused.Err != "" {
		return &Refused{refused.Err}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}

// IsRefused reports whether err is an answer of the plugin and not an error of the connection.
func IsRefused(err error) bool {
	var r *Refused
	return errors.As(err, &r)
}
