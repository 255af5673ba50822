package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/cli/internal/dial"
)

// label marks the images and containers of relays.
const label = "com.helmdeck.repos.relay"

// message is the comment of a relay's image. An image that somebody builds from it has the label
// too, but a comment of its own.
const message = "docker repos: a relay to the plugin"

var imageID = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// load imports the image of a relay, and returns its ID. The image has no name, because whoever may use
// the engine could give the name to another image.
func load(ctx context.Context, engine client.APIClient, file *os.File, p platform) (id string, err error) {
	local := strings.HasPrefix(engine.DaemonHost(), "unix://")
	content, err := image(file, !local)
	if err != nil {
		return "", err
	}
	defer content.Close()
	options := client.ImageImportOptions{Message: message, Changes: []string{"LABEL " + label + "=1"}}
	options.Platform.OS, options.Platform.Architecture = p.os, p.arch
	return Import(ctx, engine, content, options)
}

// Importer is the part of the engine's client that Import uses.
type Importer interface {
	ImageImport(ctx context.Context, source client.ImageImportSource, ref string, o client.ImageImportOptions) (client.ImageImportResult, error)
}

// Import imports an image without a name from a tar file, and returns its ID.
func Import(ctx context.Context, engine Importer, content io.Reader, options client.ImageImportOptions) (id string, err error) {
	answer, err := engine.ImageImport(ctx, client.ImageImportSource{Source: content, SourceName: "-"}, "", options)
	if err != nil {
		return "", err
	}
	defer answer.Close()
	// The last status is the ID; those before it are about the progress.
	for d := json.NewDecoder(answer); ; {
		var m struct{ Status, Error string }
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF) && imageID.MatchString(id):
			return id, nil
		case errors.Is(err, io.EOF):
			return "", fmt.Errorf("the engine answers with the image ID %.80q, which is none", id)
		case err != nil:
			return "", err
		case m.Error != "":
			return "", errors.New(m.Error)
		case m.Status != "":
			id = m.Status
		}
	}
}

// settings returns what runs in the container.
func settings(image string) *container.Config {
	return &container.Config{
		Image: image, Labels: map[string]string{label: "1"},
		User: "0:0", Entrypoint: []string{"/" + program}, WorkingDir: "/",
		// The end of the stream to the caller is the end of the relay's stdin.
		OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
	}
}

const (
	relayMemory = 256 << 20
	relayPIDs   = 64
)

// confinement returns the container's rights. The relay is root without capabilities: that is enough for
// the socket, which belongs to root.
func confinement(plugin string, engine system.Info) *container.HostConfig {
	pids := int64(relayPIDs)
	h := &container.HostConfig{
		AutoRemove: true, NetworkMode: "none", IpcMode: container.IPCModeNone, ReadonlyRootfs: true,
		CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
		// What passes may be secret, and the engine's log would keep it.
		LogConfig: container.LogConfig{Type: "none"},
		Resources: container.Resources{Memory: relayMemory, PidsLimit: &pids},
		Mounts: []mount.Mount{{
			Type: mount.TypeBind, Source: dial.Sockets + "/" + plugin, Target: socketDir, ReadOnly: true,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true},
		}},
	}
	if dial.HasOption(engine, "userns") {
		h.UsernsMode = "host" // another root could not open the socket
	}
	if dial.HasOption(engine, "selinux") {
		h.SecurityOpt = append(h.SecurityOpt, "label=disable") // a container's type may not connect to the plugin
	}
	return h
}

// removeContainer removes a container, also one that the engine is removing already, and returns when it
// is gone.
func removeContainer(ctx context.Context, engine client.APIClient, id string) error {
	if id == "" {
		return nil
	}
	gone := engine.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	_, err := engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true})
	switch {
	case err == nil, errdefs.IsNotFound(err):
		return nil
	case !errdefs.IsConflict(err):
		return fmt.Errorf("remove the relay's container %.12s: %w", id, err)
	}
	select {
	case <-gone.Result:
		return nil
	case err := <-gone.Error:
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("wait for the end of the relay's container %.12s: %w", id, err)
	}
}

func removeImage(ctx context.Context, engine client.APIClient, id string) error {
	if id == "" {
		return nil
	}
	_, err := engine.ImageRemove(ctx, id, client.ImageRemoveOptions{PruneChildren: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove the relay's image %.19s: %w", id, err)
	}
	return nil
}
