package diskguard

import "golang.org/x/sys/unix"

// Usage is how full a filesystem is.
type Usage struct {
	// Free is how many bytes this process may still use, Total the size.
	Free, Total int64
	// Inodes is how many files may still be made; -1: without limit.
	Inodes int64
}

// Statfs asks the kernel for the usage of the filesystem that dir is on.
func Statfs(dir string) (Usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Usage{}, err
	}
	u := Usage{Free: int64(st.Bavail) * int64(st.Bsize), Total: int64(st.Blocks) * int64(st.Bsize), Inodes: -1}
	if st.Files > 0 {
		u.Inodes = int64(st.Ffree)
	}
	return u, nil
}
