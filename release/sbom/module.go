package sbom

import (
	"bytes"
	"debug/buildinfo"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/common"
)

const ours = "github.com/helmdeck/repos"

// modules adds the Go modules that a program says it was linked with, and Go's standard library.
func (b *builder) modules(program common.ElementID, data []byte) error {
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return err
	}
	link := func(path, version, sum string) {
		source := ""
		if sum != "" {
			source = "module hash " + sum
		}
		locator := "pkg:golang/" + path + "@" + escape(version)
		b.relate(program, common.TypeRelationshipStaticLink, b.pkg(path, version, locator, source))
	}
	link("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")
	link(info.Main.Path, b.about.Version, "")
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Path == ours || strings.HasPrefix(m.Path, ".") { // replaced by a directory of this project
			link(ours, b.about.Version, "")
			continue
		}
		link(m.Path, m.Version, m.Sum)
	}
	return nil
}
