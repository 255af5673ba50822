package hostile

import "github.com/helmdeck/repos/internal/gitserver/hostile"

func init() {
	groups = append(groups,
		func() []attack {
			return repositories("submodule", hostile.Submodules, map[string]string{"submodules": "recursive"})
		},
		func() []attack { return repositories("lfs", hostile.LFS, map[string]string{"lfs": "true"}) })
}
