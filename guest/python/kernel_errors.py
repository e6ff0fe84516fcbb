"""kernel_errors.py - exceptions of cells for people: without the kernel's own frames,
with `Cell In[3], line 2`. Loaded by kernel.py, which is `kernel` here.
"""
import traceback


def strip_frames(trace):
    """The same traceback without the frames of the kernel's files."""
    frames = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename not in kernel.OURS:
            frames.append(trace)
        trace = trace.tb_next
    first = next((i for i, t in enumerate(frames)
                  if t.tb_frame.f_code.co_filename.startswith("Cell In[")), 0)
    result = None
    for trace in reversed(frames[first:]):  # frames before the cell belong to the event loop
        result = type(trace)(result, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    return result


def strip_chain(problem):
    seen = set()
    waiting = [problem]
    while waiting:
        problem = waiting.pop()
        if problem is not None and id(problem) not in seen:
            seen.add(id(problem))
            problem.__traceback__ = strip_frames(problem.__traceback__)
            waiting += [problem.__cause__, problem.__context__]


def name_cell(line):
    """`File "Cell In[3]", line 2, in <module>` as `Cell In[3], line 2`."""
    at = line.find('File "Cell In[')
    if at < 0 or line[:at].strip(" |+-"):
        return line
    rest = line[at + 6:].replace('", line ', ", line ", 1).replace(", in <module>\n", "\n", 1)
    return line[:at] + rest


def format_error(problem):
    """(name, value, traceback) of an exception. Runs guest code: __str__ and the like."""
    kind = type(problem)
    try:
        value = str(problem)
    except Exception:
        value = "<exception str() failed>"
    strip_chain(problem)
    parts = traceback.TracebackException(kind, problem, problem.__traceback__).format()
    text = "".join(name_cell(line) for part in parts for line in part.splitlines(True))
    return kind.__name__, value, text
