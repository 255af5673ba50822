package volume

// Auth says who uses the volume's credential besides the plugin.
type Auth string

const (
	// AuthNone keeps it from containers.
	AuthNone Auth = "none"
	// AuthContainer hands it to git in the containers that have a mount of the volume.
	AuthContainer Auth = "container"
)

// authProblem returns why the volume can't have auth=container, or "" if it can.
func (o *Options) authProblem() (problem string) {
	switch scheme := o.Repo.Scheme(); {
	case o.Auth != AuthContainer || scheme == "https" || scheme == "http":
		return ""
	case scheme == "ssh":
		return "can't be with an ssh URL, because a key is never handed out: use the https URL and a token"
	default:
		return "can't be with a URL of the scheme " + scheme + ", which has no credentials"
	}
}
