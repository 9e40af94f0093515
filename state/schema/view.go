package schema

// A View is a batch at one moment. It is immutable.
type View struct {
	Status           // its unchanged jobs are shared with the previous View
	Secrets []string // secrets that may occur in texts
}

// A LogPart is an attempt's part of a log file.
type LogPart struct {
	Path     string
	From, To int64 // To is -1 for the end of the file
	Over     bool  // the attempt has ended
}
