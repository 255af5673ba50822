module github.com/helmdeck/repos/release

go 1.26.0

replace github.com/helmdeck/repos => ../

require (
	github.com/google/go-containerregistry v0.22.1
	github.com/helmdeck/repos v0.0.0
	github.com/moby/moby/api v1.56.1
	github.com/spdx/tools-golang v0.5.7
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/mod v0.39.0
)

require (
	github.com/anchore/go-struct-converter v0.1.0 // indirect
	github.com/docker/cli v29.7.2+incompatible // indirect
	github.com/docker/docker-credential-helpers v0.9.3 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/moby/sys/mountinfo v0.7.3 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/sirupsen/logrus v1.10.2 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	gotest.tools/v3 v3.5.2 // indirect
)
