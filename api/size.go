package api

// Size is what files take on disk.
type Size struct {
	Bytes  int64 `json:"bytes"`
	Inodes int64 `json:"inodes"`
}

// Add returns the sum of two sizes.
func (s Size) Add(o Size) Size { return Size{s.Bytes + o.Bytes, s.Inodes + o.Inodes} }

// Space is the capacity of a filesystem. Total has 0 inodes if it makes them as needed.
type Space struct {
	Total Size `json:"total"`
	Free  Size `json:"free"`
}

// Classes are sizes by what the files are for.
type Classes struct {
	Store      Size `json:"store"`      // bare repositories
	LFS        Size `json:"lfs"`        // objects of Git LFS
	Tree       Size `json:"tree"`       // checked out files
	GitLayer   Size `json:"git_layer"`  // .git directories of workspaces
	WarmLayer  Size `json:"warm_layer"` // directories carried over to later workspaces
	Cache      Size `json:"cache"`      // dependency caches
	Workspace  Size `json:"workspace"`  // written by containers
	Checkpoint Size `json:"checkpoint"` // written by containers that have ended
}

// Total returns the sum of all classes.
func (c Classes) Total() Size {
	return c.Store.Add(c.LFS).Add(c.Tree).Add(c.GitLayer).Add(c.WarmLayer).Add(c.Cache).Add(c.Workspace).Add(c.Checkpoint)
}

// Add returns the sums by class.
func (c Classes) Add(o Classes) Classes {
	return Classes{
		c.Store.Add(o.Store), c.LFS.Add(o.LFS), c.Tree.Add(o.Tree), c.GitLayer.Add(o.GitLayer), c.WarmLayer.Add(o.WarmLayer),
		c.Cache.Add(o.Cache), c.Workspace.Add(o.Workspace), c.Checkpoint.Add(o.Checkpoint),
	}
}
