package claude

import "context"

// startProcess starts claude as a process for these options.
func startProcess(ctx context.Context, opts *Options) *session {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	return newSession(ctx, &o, openProcess)
}

// openProcess prepares the session's files, then starts the process: whatever
// can fail without a process fails before there is one.
func openProcess(ctx context.Context, s *session) (Transport, error) {
	o := s.opts
	if err := o.check(); err != nil {
		return nil, err
	}
	dir, err := o.workDir()
	if err != nil {
		return nil, err
	}
	env := o.environment()
	launch, spec := o.Launch, LaunchSpec{Path: o.Executable, Dir: o.Dir}
	if launch == nil {
		launch = launchLocal
		if spec.Path, err = findExecutable(o.Executable, dir, env.home()); err != nil {
			return nil, err
		}
	}
	var tree *resumeTree
	if o.SessionStore != nil {
		if tree, err = materialize(ctx, o, dir, env); err != nil {
			return nil, err
		}
	}
	env = append(environ(o.childEnv(env)), tree.env()...)
	if spec.Args, err = o.args(); err != nil {
		tree.remove()
		return nil, err
	}
	spec.Env = env
	if err = context.Cause(s.ctx); err != nil { // closed while the store loaded
		tree.remove()
		return nil, err
	}
	process, err := launch(ctx, spec)
	if err != nil {
		tree.remove()
		return nil, err
	}
	if o.SessionStore != nil {
		s.mirror = newMirror(o.SessionStore, env.configDir(), o.EagerFlush, s.queue.push)
	}
	t := newProcessTransport(process, o.Stderr)
	if tree != nil {
		return &resumedTransport{processTransport: t, tree: tree}, nil
	}
	return t, nil
}

// resumedTransport removes the temporary tree once the process has ended, not
// before: the process writes into it to the end.
type resumedTransport struct {
	*processTransport
	tree *resumeTree
}

func (t *resumedTransport) Wait() error {
	defer t.tree.remove()
	return t.processTransport.Wait()
}
