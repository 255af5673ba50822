package quarantine

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/intake"
)

// looseKinds are the types of objects by their number in a pack.
var looseKinds = map[string]byte{"commit": 1, "tree": 2, "blob": 3, "tag": 4}

// maxLooseHeader is more than the type and the size of any object take.
const maxLooseHeader = 32

// loose writes the bytes of the IDs of the loose objects to w, and returns how many there are.
func (r *Repo) loose(w io.Writer) (n int, err error) {
	names := 0
	for i := range 256 {
		prefix := fmt.Sprintf("%02x", i)
		err := r.eachName("objects/"+prefix, maxLoose-names, func(e fs.DirEntry) error {
			names++ // also of files that git is writing, which are no objects
			id := prefix + e.Name()
			if !gitref.IsObjectID(id) || gitref.Format(id) != r.layer.format {
				return nil
			}
			raw, err := hex.DecodeString(id)
			if err != nil {
				return err
			}
			n++
			_, err = w.Write(raw)
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if refused, ok := errors.AsType[*Refusal](err); ok && refused.Why == TooLarge {
			return 0, refuse(TooLarge, "the workspace has more than %d loose objects: pack them in the container (git repack -d)", maxLoose)
		}
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// packLoose writes n loose objects, whose IDs are what loose wrote, to w as one pack, without deltas. Each object must
// have the hash that its name says. It computes until ctx ends.
func (r *Repo) packLoose(ctx context.Context, w io.Writer, ids io.Reader, n int, m *meter) error {
	p := &packer{w: w, sum: r.newHash()}
	p.out = io.MultiWriter(w, p.sum)
	p.begin(n)
	id := make([]byte, p.sum.Size())
	for range n {
		if p.err != nil {
			return p.err
		}
		if _, err := io.ReadFull(ids, id); err != nil {
			return err
		}
		if err := r.packOne(ctx, p, hex.EncodeToString(id), m); err != nil {
			return err
		}
	}
	return p.end()
}

func (r *Repo) newHash() hash.Hash {
	if r.layer.format == gitref.SHA256 {
		return sha256.New()
	}
	return sha1.New()
}

// packOne writes one loose object. The meter counts its size.
func (r *Repo) packOne(ctx context.Context, p *packer, id string, m *meter) error {
	torn := func(why any) error {
		if err, ok := why.(error); ok && errors.Is(err, intake.ErrExcess) {
			why = errDeflate
		}
		return refuse(Changed, "object %s of the workspace is damaged, or was changed while it was read (%v): run it again", id, why)
	}
	f, err := openFile(r.dir, "objects/"+id[:2]+"/"+id[2:])
	switch {
	case errors.Is(err, fs.ErrNotExist), isDir(err):
		return torn(err)
	case err != nil:
		return err
	}
	defer f.Close()
	// A bomb has a thousand times its own size, and the limit of the size ends it. The reverse, a
	// stream that inflates to almost nothing, is no object that git writes.
	both := intake.NewMeter(deflateSlack)
	z, err := zlib.NewReader(bufio.NewReader(intake.Until(ctx, both.In(f))))
	if err != nil {
		return cmp.Or(context.Cause(ctx), torn(err))
	}
	content := bufio.NewReader(both.Out(z))
	kind, size, err := looseHeader(content)
	if err != nil {
		return cmp.Or(context.Cause(ctx), torn(err))
	}
	if err := m.add(max(size, f.size())); err != nil {
		return err
	}
	name := r.newHash()
	fmt.Fprintf(name, "%s %d\x00", kind, size)
	n, err := p.entry(looseKinds[kind], size, io.TeeReader(io.LimitReader(content, size), name))
	if p.err != nil {
		return p.err
	}
	if err == nil {
		_, err = content.ReadByte() // verifies the checksum
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, intake.ErrExcess):
		return torn(err)
	case n != size:
		return torn(fmt.Sprintf("%d bytes, want %d", n, size))
	case err == nil:
		return torn("it is longer than it says")
	case err != io.EOF:
		return torn(err)
	case hex.EncodeToString(name.Sum(nil)) != id:
		return torn("it does not have this hash")
	}
	return nil
}

// deflateSlack is by how much a compressed object, as far as it was read, may exceed the content that
// came out, in bytes: buffers, and what deflate adds to what it can't compress.
const deflateSlack = 256 << 10

var errDeflate = errors.New("its compressed form is more than twice as long as its content")

// looseHeader reads the type and the size of a loose object.
func looseHeader(r *bufio.Reader) (kind string, size int64, err error) {
	var head []byte
	for {
		c, err := r.ReadByte()
		if err != nil {
			return "", 0, err
		}
		if c == 0 {
			break
		}
		if head = append(head, c); len(head) > maxLooseHeader {
			return "", 0, errors.New("it has no header")
		}
	}
	kind, text, _ := strings.Cut(string(head), " ")
	size, err = strconv.ParseInt(text, 10, 64)
	if looseKinds[kind] == 0 || err != nil || size < 0 || text != strconv.FormatInt(size, 10) {
		return "", 0, fmt.Errorf("its header is %q", head)
	}
	return kind, size, nil
}

// packer writes a pack. After the first error, which it keeps, it writes nothing.
type packer struct {
	w   io.Writer
	sum hash.Hash
	out io.Writer // w and sum
	z   *zlib.Writer
	err error
}

// begin writes the header of a pack with n objects.
func (p *packer) begin(n int) {
	head := binary.BigEndian.AppendUint32([]byte("PACK"), 2)
	p.write(binary.BigEndian.AppendUint32(head, uint32(n)))
}

func (p *packer) write(data []byte) {
	if p.err == nil {
		_, p.err = p.out.Write(data)
	}
}

// entry writes one object. The error is that of reading the content.
func (p *packer) entry(kind byte, size int64, content io.Reader) (n int64, err error) {
	head := []byte{kind<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	p.write(head)
	if p.z == nil {
		// The objects are sent as they are packed here.
		p.z = zlib.NewWriter(p)
	} else {
		p.z.Reset(p)
	}
	n, err = io.Copy(p.z, content)
	if cerr := p.z.Close(); p.err == nil && err == nil {
		err = cerr
	}
	return n, err
}

// Write implements io.Writer for the compressor.
func (p *packer) Write(data []byte) (int, error) {
	p.write(data)
	return len(data), p.err
}

// end writes the checksum.
func (p *packer) end() error {
	if p.err == nil {
		_, p.err = p.w.Write(p.sum.Sum(nil))
	}
	return p.err
}

// meter limits what is read of one workspace.
type meter struct {
	bytes, maxBytes     int64
	objects, maxObjects int64
}

// add counts bytes.
func (m *meter) add(n int64) error {
	if n > m.maxBytes-m.bytes {
		return refuse(TooLarge, "the workspace has more than %d bytes of objects that the volume did not begin with (setting PUSH_MAX_SIZE; unpacked, as far as they are loose)", m.maxBytes)
	}
	m.bytes += n
	return nil
}

// count counts objects.
func (m *meter) count(n int64) error {
	if n > m.maxObjects-m.objects {
		return refuse(TooLarge, "the workspace has more than %d objects that the volume did not begin with (setting PUSH_MAX_SIZE)", m.maxObjects)
	}
	m.objects += n
	return nil
}

// packs returns the names of the packs that the git layer does not have, such as pack-<hash>.
// A pack that git is writing has another name.
func (r *Repo) packs() (names []string, err error) {
	err = r.eachName("objects/pack", maxPackEntries, func(e fs.DirEntry) error {
		name, ok := strings.CutSuffix(e.Name(), ".pack")
		hash, named := strings.CutPrefix(name, "pack-")
		if !ok || !named || !gitref.IsObjectID(hash) || r.layer.packs[e.Name()] {
			return nil
		}
		if names = append(names, name); len(names) > maxPacks {
			return refuse(TooLarge, "the workspace has more than %d packs: join them in the container (git repack -ad)", maxPacks)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(names)
	return names, err
}

// copyPack writes a pack to w as it is. git checks what is in it.
func (r *Repo) copyPack(w io.Writer, f *file, m *meter) error {
	var head [12]byte
	if err := m.add(f.size()); err != nil {
		return err
	}
	in := bufio.NewReaderSize(io.LimitReader(f, f.size()), 256<<10)
	start, err := in.Peek(len(head))
	if err != nil || !bytes.HasPrefix(start, []byte("PACK")) {
		return damagedPack(f, errors.New("it is not a pack"))
	}
	if err := m.count(int64(binary.BigEndian.Uint32(start[8:]))); err != nil {
		return err
	}
	_, err = in.WriteTo(w)
	return err
}

// damagedPack explains why a pack can't be used.
func damagedPack(f *file, err error) error {
	if f.changed() {
		return refuse(Changed, "the pack %q of the workspace was changed while it was read: run it again", f.rel)
	}
	return refuse(Unusable, "the pack %q of the workspace is damaged: %v", f.rel, err)
}

// objectsIn returns how many objects the header of our pack says.
func objectsIn(f io.ReaderAt) (int64, error) {
	var head [12]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint32(head[8:])), nil
}
