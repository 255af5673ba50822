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
	Client *http.Client // of the socket, whatever host a URL names
	root   string       // what the plugin takes for /, where that is another directory
}

// Dial returns the Caller of a socket, which need not be there yet.
func Dial(socket string) *Caller {
	return &Caller{Client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Refused is what the plugin answered to what it did not do.
type Refused struct{ Message string }

func (e *Refused) Error() string { return e.Message }

// Create makes a volume.
func (c *Caller) Create(ctx context.Context, name string, options map[string]string) error {
	return c.Call(ctx, "VolumeDriver.Create", volume.CreateRequest{Name: name, Options: options}, nil)
}

// Mount returns where a volume is mounted for a mount ID.
func (c *Caller) Mount(ctx context.Context, name, id string) (dir string, err error) {
	var a volume.MountResponse
	err = c.Call(ctx, "VolumeDriver.Mount", volume.MountRequest{Name: name, ID: id}, &a)
	if err != nil {
		return "", err
	}
	return filepath.Join(c.root, a.Mountpoint), nil
}

// Unmount takes back one Mount.
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

// Call does what the engine does: request, if there is one, is the body, and answer, if there is one, gets the answer's.
// What the plugin says instead is a *Refused; other errors are those of the connection.
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

// IsRefused says whether err is an answer of the plugin, and not a lost connection.
func IsRefused(err error) bool {
	var r *Refused
	return errors.As(err, &r)
}
