package health

// Finding is a finding of the janitor.
type Finding struct {
	Text  string
	Limit bool // a limit stays exceeded
	Named bool // checkpoints with names keep much of a limit
}

// mostFindings bounds the checks about findings, and those about credentials.
const mostFindings = 20

func (f Facts) budget() []Check {
	var list []Check
	for _, found := range f.Findings[:min(len(f.Findings), mostFindings)] {
		c := ok("budget", "%s", found.Text)
		switch {
		case found.Limit:
			list = append(list, c.fail("raise the limit with docker plugin set, or end what holds the space: docker repos df shows it"))
		case found.Named:
			list = append(list, c.warn("remove checkpoints that are no longer needed, before the rest of the limit is full, or raise the limit"))
		default:
			list = append(list, c.warn("see what the container writes, or raise WORKSPACE_WARN_SIZE, or the limit of its volume"))
		}
	}
	if more := len(f.Findings) - mostFindings; more > 0 {
		list = append(list, ok("budget", "%d more findings are in the log", more).warn("begin with those above"))
	}
	if len(list) == 0 {
		list = append(list, ok("budget", "everything is within its limits"))
	}
	return list
}
