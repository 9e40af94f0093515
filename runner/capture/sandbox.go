package capture

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gpurun/jobspec/source"
	"gpurun/runner/engine"
)

// sandboxed returns attributes that start the host in its own namespaces, as the current user.
func sandboxed(network bool) *syscall.SysProcAttr {
	flags := unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !network {
		flags |= unix.CLONE_NEWNET
	}
	uid, gid, n := os.Getuid(), os.Getgid(), 1
	if uid == 0 {
		gid, n = 0, 1<<31
	}
	return &syscall.SysProcAttr{
		Setsid: true, Cloneflags: uintptr(flags), UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: n}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: n}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER},
	}
}

// build creates the sandbox's file tree: read-only, with overlays over the folders that the user
// can write to.
func (h *host) build() (root string, err error) {
	root = "/proc/root"                                                         // the launcher's writes go to a tmpfs that hides /proc here; the sandbox gets its own /proc
	interpreters, tops, mounts := h.interpreters(), h.writableRoots(), mounts() // while the old /proc is visible
	do := func(what string, errs ...error) {
		if e := errors.Join(errs...); err == nil && e != nil {
			err = fmt.Errorf("%s: %w", what, e)
		}
	}
	do("private mounts", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	do("tmpfs", unix.Mount("tmpfs", "/proc", "tmpfs", unix.MS_NOSUID, "size=2g,mode=755"), os.MkdirAll(root, 0o755))
	do("root", unix.Mount("/", root, "", unix.MS_BIND|unix.MS_REC, ""), readOnly(root))
	if err != nil {
		return "", err
	}
	h.Uppers, err = unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY, 0) // stays open when enter hides the folder
	do("changes", err)
	for i, dir := range tops {
		if e := h.cover(dir, root+dir, mounts); i == 0 {
			do("overlay", e) // only the launcher's folder must have one; other folders stay read-only without it
		}
	}
	do("proc", unix.Mount("proc", root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, ""))
	do("run", unix.Mount("tmpfs", root+"/run", "tmpfs", unix.MS_RDONLY, ""))                  // hides the sockets of services that could start programs
	do("dev", unix.Mount("tmpfs", root+"/dev", "tmpfs", unix.MS_NOSUID, "size=64m,mode=755")) // no GPUs
	// An overlay hides sockets, but not every folder has an overlay.
	for _, socket := range h.Sockets {
		if real, err := filepath.EvalSymlinks(socket); err == nil {
			_ = unix.Mount("/dev/null", root+real, "", unix.MS_BIND, "")
		}
	}
	do("home", os.MkdirAll(root+h.Home, 0o755), os.Mkdir(root+"/dev/shm", 0o700))
	for _, name := range strings.Fields("null zero full random urandom tty") {
		_ = bind("/dev/"+name, root+"/dev/"+name)
	}
	for name, to := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		do("dev", os.Symlink("/proc/self/fd"+to, root+"/dev/"+name))
	}
	self := h.Home + "/gpurun"
	do("gpurun", bind(h.Self, root+self))
	h.Self, h.Originals = self, map[string]string{}
	for i, path := range interpreters {
		original := fmt.Sprintf("%s/real%d/%s", h.Home, i, filepath.Base(path))
		if bind(path, root+original) == nil && unix.Mount(root+self, root+path, "", unix.MS_BIND, "") == nil {
			h.Originals[path] = original
		}
	}
	return root, err
}

// mounts returns all mount points.
func mounts() (list []string) {
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) {
		list = append(list, strings.ReplaceAll(strings.Fields(line)[4], `\040`, " "))
	}
	return list
}

// writableRoots returns the topmost folders that this user can write to, the launcher's first.
func (h *host) writableRoots() (tops []string) {
	p, special := h.Programs[0], regexp.MustCompile(`^/(proc|dev|sys|run)?(/|$)`)
	list := append([]string{p.Dir, engine.Variable(p.Env, "HOME"), cmp.Or(engine.Variable(p.Env, "TMPDIR"), "/tmp"), "/tmp", "/var/tmp"}, mounts()...)
	for _, glob := range []string{"/*", "/*/" + engine.Variable(p.Env, "USER"), "/*/*/" + engine.Variable(p.Env, "USER")} {
		found, _ := filepath.Glob(glob)
		list = append(list, found...)
	}
	for _, dir := range list {
		real, err := filepath.EvalSymlinks(dir)
		for ; err != nil; real, err = filepath.EvalSymlinks(dir) {
			dir = filepath.Dir(dir) // dir does not exist: the launcher created it in another sandbox
		}
		top := ""
		for at := real; !special.MatchString(at); at = filepath.Dir(at) {
			if fi, err := os.Stat(at); err == nil && fi.IsDir() && unix.Access(at, unix.W_OK) == nil {
				top = at
			}
		}
		if top != "" && !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	return tops
}

// cover mounts an overlay over a folder, or over each of its entries if there are mount points
// below it.
func (h *host) cover(from, to string, mounts []string) error {
	if !slices.ContainsFunc(mounts, func(m string) bool { return strings.HasPrefix(m, from+"/") }) {
		h.Covered = append(h.Covered, from)
		with := fmt.Sprint("/proc/", len(h.Covered)-1)
		err := overlay(from, to, with)
		if err == nil && os.Getuid() != 0 { // root's namespace maps all owners
			h.mirror(from, with+"/up")
		}
		return err
	}
	entries, err := os.ReadDir(from)
	err = errors.Join(err, unix.Mount("tmpfs", to, "tmpfs", unix.MS_NOSUID, "size=2g,mode=1777"))
	for _, e := range entries {
		from, to := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if target, err := os.Readlink(from); err == nil {
			_ = os.Symlink(target, to)
		} else if e.Type().IsRegular() {
			_ = errors.Join(bind(from, to), readOnly(to))
		} else if e.IsDir() && os.Mkdir(to, 0o755) == nil && h.cover(from, to, mounts) != nil {
			_ = errors.Join(unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""), readOnly(to))
		}
	}
	return err
}

func readOnly(path string) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// bind bind-mounts a file on a new path.
func bind(from, to string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, nil, 0o755), unix.Mount(from, to, "", unix.MS_BIND, ""))
}

// overlay mounts an overlay of the folder 'from' at the path 'to'. Changes go to a folder below the
// path 'with'.
func overlay(from, to, with string) error {
	up, mode := with+"/up", fs.FileMode(0o755)
	if fi, err := os.Stat(from); err == nil {
		mode = fi.Mode() & (fs.ModePerm | fs.ModeSticky)
	}
	if err := errors.Join(os.MkdirAll(up, 0o755), os.Mkdir(with+"/work", 0o755), os.Chmod(up, mode)); err != nil {
		return err
	}
	options := "lowerdir=" + strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace(from) + ",upperdir=" + up + ",workdir=" + with + "/work"
	if unix.Mount("overlay", to, "overlay", 0, options+",userxattr") == nil {
		return nil
	}
	return unix.Mount("overlay", to, "overlay", 0, options)
}

const (
	maxMirrored = 10_000  // the most entries that mirror looks at
	maxCopied   = 1 << 20 // the size of the largest file that it copies
)

// mirror copies a folder or small file to the upper folder of an overlay if the user can write to it
// but the namespace lacks its owner or group, as in a group's setgid folder. The kernel would refuse
// to copy it up.
func (h *host) mirror(from, up string) {
	mode := func(path string, fi fs.FileInfo) (m fs.FileMode) {
		for _, bit := range []uint32{unix.R_OK, unix.W_OK, unix.X_OK} {
			if unix.Access(path, bit) == nil {
				m |= fs.FileMode(bit) << 6
			}
		}
		return m | fi.Mode()&0o077
	}
	var folder func(dir string)
	folder = func(dir string) {
		to := up + strings.TrimPrefix(dir, from)
		if fi, err := os.Stat(dir); dir != from && err == nil {
			folder(filepath.Dir(dir))
			if os.Mkdir(to, 0o700) == nil {
				_ = os.Chmod(to, mode(dir, fi))
			}
		}
	}
	queue := []string{from}
	if dir, err := filepath.EvalSymlinks(h.Programs[0].Dir); err == nil && strings.HasPrefix(dir, from+"/") {
		queue = []string{dir, from} // the launcher most likely writes below its own folder
	}
	for looked := 0; len(queue) > 0 && looked < maxMirrored; queue = queue[1:] {
		paths := []string{queue[0]}
		entries, _ := os.ReadDir(queue[0])
		for _, e := range entries {
			paths = append(paths, filepath.Join(queue[0], e.Name()))
		}
		for i, path := range paths {
			fi, err := os.Lstat(path)
			if looked++; err != nil {
				continue
			}
			st, _ := fi.Sys().(*syscall.Stat_t)
			switch foreign := (int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid()) && unix.Access(path, unix.W_OK) == nil; {
			case fi.IsDir() && i > 0:
				queue = append(queue, path)
			case fi.IsDir() && foreign:
				folder(path)
			case fi.Mode().IsRegular() && foreign && fi.Size() <= maxCopied:
				if data, err := os.ReadFile(path); err == nil {
					folder(queue[0])
					to := up + strings.TrimPrefix(path, from)
					// Changes ignores a file whose time is still that of the original.
					_ = errors.Join(os.WriteFile(to, data, mode(path, fi)), os.Chtimes(to, time.Time{}, fi.ModTime()))
				}
			}
		}
	}
}

const maxChanges = 10_000

// changes returns what the launcher changed in the overlays.
func (h *host) changes() (list []Change) {
	for i, dir := range h.Covered {
		up := fmt.Sprintf("/proc/self/fd/%d/%d/up", h.Uppers, i)
		_ = fs.WalkDir(os.DirFS(up), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == "." {
				return nil
			} else if len(list) == maxChanges {
				return fs.SkipAll
			}
			fi, err := d.Info()
			if err == nil { // an overlay marks a removed file with a character device
				list = append(list, Change{filepath.Join(dir, path), fi.Mode()&fs.ModeCharDevice != 0, fi.IsDir(), fi.ModTime()})
			}
			return nil
		})
	}
	return list
}

// interpreterPath matches interpreter paths in a script.
var interpreterPath = source.Regexp(`(?:~|\$HOME|[A-Za-z0-9_.-]+)?/[A-Za-z0-9_./+-]*bin/(?:python[0-9.]*|pypy[0-9.]*|torchrun|accelerate|deepspeed)`)

// interpreters returns the files that recorders cover: those on PATH, in environments, named by the
// launcher or --record, or seen in an earlier attempt.
func (h *host) interpreters() (list []string) {
	p, names, text := h.Programs[0], h.names(), strings.Join(h.Programs[0].Argv, "\n")
	globs := strings.Fields("bin/* */bin/* .venv/bin/* ../*/bin/* ../.venv/bin/* ~/*/bin/* ~/*/envs/*/bin/* ~/.pyenv/versions/*/bin/* ~/.virtualenvs/*/bin/* ~/.venvs/*/bin/* ~/.conda/envs/*/bin/* ~/.local/share/mamba/envs/*/bin/* ~/.local/share/uv/python/*/bin/* /opt/*/bin/* /opt/*/envs/*/bin/*")
	for _, dir := range filepath.SplitList(engine.Variable(p.Env, "PATH")) {
		globs = append(globs, dir+"/*")
	}
	for _, w := range p.Argv {
		if fi, err := os.Stat(pathIn(p.Dir, w)); err == nil && fi.Mode().IsRegular() && fi.Size() < 1<<20 {
			data, _ := os.ReadFile(pathIn(p.Dir, w))
			text += "\n" + string(data)
		}
	}
	globs = slices.Concat(globs, h.Escaped, interpreterPath().FindAllString(text, -1))
	for _, g := range h.Record {
		word, _, _ := strings.Cut(g, " ")
		globs = append(globs, word)
	}
	for _, g := range globs {
		found, _ := filepath.Glob(pathIn(p.Dir, strings.NewReplacer("~", engine.Variable(p.Env, "HOME"), "$HOME", engine.Variable(p.Env, "HOME")).Replace(g)))
		for _, f := range found {
			name := filepath.Base(f)
			if known := python(name) || name != "sleep" && slices.Contains(names, name); strings.HasSuffix(g, "/*") && !known { // sleep may be a link to a multi-call binary such as busybox
				continue
			}
			real, err := filepath.EvalSymlinks(f)
			if fi, e := os.Stat(real); err == nil && e == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 && real != h.Self && !slices.Contains(list, real) {
				list = append(list, real)
			}
		}
	}
	return list
}

// pathIn resolves a path relative to dir.
func pathIn(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// enter makes the sandbox's tree the root, drops all privileges and re-executes gpurun there.
func (h *host) enter(root string) error {
	runtime.LockOSThread() // capabilities belong to a thread, and execve keeps this one
	err := errors.Join(os.Chdir(root), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH), os.Chdir("/"))
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	err = errors.Join(err, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
	if err != nil {
		return err
	}
	return syscall.Exec(h.Self, []string{"gpurun", ChildArg, h.Home}, os.Environ())
}
