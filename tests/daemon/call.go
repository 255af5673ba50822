package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"github.com/docker/go-plugins-helpers/volume"
)

// Refused is what the plugin answered to what it did not do.
type Refused struct{ Message string }

func (e *Refused) Error() string { return e.Message }

// Create makes a volume.
func (d *Daemon) Create(ctx context.Context, name string, options map[string]string) error {
	return d.Call(ctx, "VolumeDriver.Create", volume.CreateRequest{Name: name, Options: options}, nil)
}

// Mount returns where a volume is mounted for a mount ID.
func (d *Daemon) Mount(ctx context.Context, name, id string) (dir string, err error) {
	var a volume.MountResponse
	err = d.Call(ctx, "VolumeDriver.Mount", volume.MountRequest{Name: name, ID: id}, &a)
	if err != nil {
		return "", err
	}
	return filepath.Join(d.Root, a.Mountpoint), nil
}

// Unmount takes back one Mount.
func (d *Daemon) Unmount(ctx context.Context, name, id string) error {
	return d.Call(ctx, "VolumeDriver.Unmount", volume.UnmountRequest{Name: name, ID: id}, nil)
}

// Remove removes a volume.
func (d *Daemon) Remove(ctx context.Context, name string) error {
	return d.Call(ctx, "VolumeDriver.Remove", volume.RemoveRequest{Name: name}, nil)
}

// Get returns a volume with its Status.
func (d *Daemon) Get(ctx context.Context, name string) (*volume.Volume, error) {
	var a volume.GetResponse
	err := d.Call(ctx, "VolumeDriver.Get", volume.GetRequest{Name: name}, &a)
	return a.Volume, err
}

// List returns all volumes.
func (d *Daemon) List(ctx context.Context) ([]*volume.Volume, error) {
	var a volume.ListResponse
	err := d.Call(ctx, "VolumeDriver.List", nil, &a)
	return a.Volumes, err
}

// Call does what the engine does: request, if there is one, is the body, and answer, if there is one, gets the answer's.
// What the plugin says instead is a *Refused; other errors are those of the connection.
func (d *Daemon) Call(ctx context.Context, method string, request, answer any) error {
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
	resp, err := d.Client.Do(r)
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
