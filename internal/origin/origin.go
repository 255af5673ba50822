package origin

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf8"
)

// Origin describes the request that something is done for.
type Origin struct {
	// Request is the ID of the request; empty for work of the plugin itself.
	Request string
	// Began is when the request came, by the machine's clock. It is zero for work of the plugin
	// itself, and for work in the background, which may serve later requests too.
	Began time.Time
	// VolumeID is the ID that Create gave the volume that this is about: the ID of the
	// request that created it. It connects Create, Mounts, Unmounts and Remove. Empty if
	// there is no volume.
	VolumeID string
	// Pod is the pod that this is done for, as namespace/name; empty if there is none.
	Pod   string
	Actor Actor
}

// Kind is the kind of an Actor.
type Kind string

const (
	Plugin  Kind = ""        // the plugin itself
	Engine  Kind = "engine"  // the peer of the engine's socket
	Kubelet Kind = "kubelet" // the peer of the socket for kubelet
	User    Kind = "user"    // the peer of the admin socket
)

// Actor is who made a request.
type Actor struct {
	Kind Kind
	// UID is that of a User's process, as the kernel says. It is Unknown if the kernel did
	// not say it.
	UID int64
	// Claim is the name that a User gave. Nothing proves it. It is empty if there is none.
	Claim string
}

// Unknown is the UID of a peer that the kernel did not name.
const Unknown = -1

// MaxClaim is the length of the longest claim, in bytes. The rest of a longer one is cut off.
const MaxClaim = 256

// NewUser returns the actor of a request on the admin socket. The claim may have any content.
func NewUser(uid int64, claim string) Actor {
	return Actor{Kind: User, UID: uid, Claim: Clip(claim, MaxClaim)}
}

// Clip returns the beginning of text as valid UTF-8, of at most max bytes.
func Clip(text string, max int) string {
	if len(text) > max {
		text = text[:max]
		for range utf8.UTFMax - 1 { // the cut may be in a character
			if r, n := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || n != 1 {
				break
			}
			text = text[:len(text)-1]
		}
	}
	text = strings.ToValidUTF8(text, "?")
	return text
}

// NewID returns a new ID: 16 hex digits.
func NewID() string {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

type peerKey struct{}

// WithPeer notes in the context of a connection who its peer is. A uid that is unknown is
// Unknown.
func WithPeer(ctx context.Context, uid int64) context.Context {
	return context.WithValue(ctx, peerKey{}, uid)
}

// PeerOf returns the uid of WithPeer, or Unknown.
func PeerOf(ctx context.Context) int64 {
	if uid, ok := ctx.Value(peerKey{}).(int64); ok {
		return uid
	}
	return Unknown
}

type key struct{}

// Of returns the origin in ctx.
func Of(ctx context.Context) Origin {
	o, _ := ctx.Value(key{}).(*Origin)
	if o == nil {
		return Origin{}
	}
	return *o
}

func with(ctx context.Context, o Origin) context.Context { return context.WithValue(ctx, key{}, &o) }

// Begin returns a context for a new request of an actor.
func Begin(ctx context.Context, a Actor) context.Context {
	return with(ctx, Origin{Request: NewID(), Began: time.Now(), Actor: a})
}

// ForVolume returns a context for work for the volume with an ID. An empty ID changes
// nothing.
func ForVolume(ctx context.Context, id string) context.Context {
	o := Of(ctx)
	if id == "" || o.VolumeID == id {
		return ctx
	}
	o.VolumeID = id
	return with(ctx, o)
}

// ForPod returns a context for work for a pod.
func ForPod(ctx context.Context, pod string) context.Context {
	o := Of(ctx)
	if pod == "" || o.Pod == pod {
		return ctx
	}
	o.Pod = pod
	return with(ctx, o)
}

// Carry returns ctx with the origin of from, but for Began. Use it where work goes on in
// another context.
func Carry(ctx, from context.Context) context.Context {
	o := Of(from)
	if o == (Origin{}) {
		return ctx
	}
	o.Began = time.Time{}
	return with(ctx, o)
}

// Bind returns f for the background, with the origin of ctx.
func Bind(ctx context.Context, f func(ctx context.Context)) func(ctx context.Context) {
	return func(background context.Context) { f(Carry(background, ctx)) }
}
